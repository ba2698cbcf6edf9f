"""Lines of bytes, as git counts them."""

import re
from typing import Final

_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")


def split(data: bytes) -> list[bytes]:
    """Return lines with their ends. `bytes.splitlines` is faster, but ends a line at a CR too."""
    return _LINE.findall(data) if b"\r" in data else data.splitlines(keepends=True)
