"""A process that holds torch and Triton's interpreter, and forks for every case.

`TRITON_INTERPRET` counts only before Triton's import, a wrong offset ends its
process, and the two imports take seconds: so one process imports, and each case
runs in a fork of it.

As a program: a line of JSON in, ``{"case", "source", "arguments"}``, a line out,
``{"value"}``, ``{"error"}`` or ``{"signal"}``.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

_PACKAGE: Final = Path(__file__).parent


class CrashedError(Exception):
    """The case's process was ended by a signal."""


class CaseError(Exception):
    """The case raised; the message is its traceback."""


class Interpreter:
    """The process, and the results that it gave already."""

    def __init__(self) -> None:
        paths = [str(_PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "TRITON_INTERPRET": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{_PACKAGE.name}.interpreter"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._known: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)

    def run(self, case: str, source: bytes, **arguments: Any) -> Any:
        """Return what the case of `cases.CASES` returns for `source`.

        Raises:
            CrashedError: a signal ended it.
            CaseError: it raised.

        """
        text = base64.b64encode(source).decode()
        line = json.dumps({"case": case, "source": text, "arguments": arguments})
        if line not in self._known:
            self._known[line] = self._ask(line)
        answer = self._known[line]
        if "signal" in answer:
            raise CrashedError(f"{case}: signal {answer['signal']}")
        if "error" in answer:
            raise CaseError(answer["error"])
        return answer["value"]

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def _serve() -> None:
    import torch  # noqa: PLC0415
    import triton.language  # noqa: F401, PLC0415

    from .cases import CASES  # noqa: PLC0415
    from .kernels import source_folder  # noqa: PLC0415

    torch.set_num_threads(1)
    source_folder()
    for line in sys.stdin:
        request = json.loads(line)
        source = base64.b64decode(request["source"])
        case = CASES[request["case"]]
        end, begin = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            _answer(begin, lambda: case(source, **request["arguments"]))  # noqa: B023
        os.close(begin)
        with os.fdopen(end) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        crashed = os.WIFSIGNALED(status)
        sys.stdout.write(json.dumps({"signal": os.WTERMSIG(status)}) if crashed else answer)
        sys.stdout.write("\n")
        sys.stdout.flush()


def _answer(pipe: int, call: Any) -> None:
    """Write the call's result and leave the process, past every handler of its parent."""
    import traceback  # noqa: PLC0415

    try:
        answer = {"value": call()}
    except Exception:  # noqa: BLE001
        answer = {"error": traceback.format_exc()}
    with os.fdopen(pipe, "w") as file:
        json.dump(answer, file)
    os._exit(0)


if __name__ == "__main__":
    _serve()
