"""What Triton's interpreter has instead of the GPU's math library."""

from typing import Any

import triton
import triton.language as tl


@triton.jit
def exp(x: Any) -> Any:
    return tl.exp(x)


@triton.jit
def exp2(x: Any) -> Any:
    return tl.exp2(x)


@triton.jit
def log(x: Any) -> Any:
    return tl.log(x)


@triton.jit
def log2(x: Any) -> Any:
    return tl.log2(x)
