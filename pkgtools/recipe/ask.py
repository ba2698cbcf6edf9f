"""Run a program of this package under another interpreter, which has torch or Mooncake."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pkgtools.errors import CheckFailedError


def ask(
    command: Sequence[str],
    *,
    given: str,
    task: str,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the JSON object on the last line of what a program prints; `task` is for messages."""
    python = command[0]
    try:
        done = subprocess.run(
            command,
            input=given,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        answer = msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, Any])
    except subprocess.TimeoutExpired:
        message = f"{python} did not {task} within {seconds:.0f} s, and was stopped"
        raise CheckFailedError(message) from None
    except (OSError, ValueError, IndexError, RecursionError, msgspec.DecodeError) as error:
        said = error if isinstance(error, OSError) else done.stderr.strip()[-500:]
        raise CheckFailedError(f"{python} cannot {task}: {said}") from None
    if "error" in answer:
        raise CheckFailedError(str(answer["error"]), remedy=answer.get("remedy"))
    return answer
