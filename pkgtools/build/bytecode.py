"""Bytecode for the changed modules of an image.

The base's bytecode of these modules is stale and is removed. Without new bytecode, every
start of a read-only container would compile them again. The new files are hash-based
(https://peps.python.org/pep-0552/), so timestamps do not invalidate them.
"""

import contextlib
import json
import posixpath
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pkgtools.blob import Blob
from pkgtools.errors import CheckFailedError, TreeError
from pkgtools.image.tree import ExtractedPackage
from pkgtools.plan.compiling import compile_error
from pkgtools.util.files import read_bytes

# Separate processes: earlier compilation and interned strings change a .pyc's bytes.
_SCRIPT: Final = """
import json, os, py_compile, sys
os.umask(0o022)
for source, compiled, name in json.load(sys.stdin):
    try:
        py_compile.compile(
            source, compiled, name, doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
        )
    except py_compile.PyCompileError as error:
        print(error.msg, file=sys.stderr)
        sys.exit(3)
"""
_DOES_NOT_COMPILE: Final = 3
_PROCESSES: Final = 2


@contextlib.contextmanager
def compiler(part: ExtractedPackage) -> Iterator[Callable[[Iterable[str]], None]]:
    """Run compiler processes for the changed modules of a part of an image.

    They start early, so that they are ready when the modules are patched. They start only if the
    base has bytecode for this version of Python.

    Yields:
        a function of the paths that changed. It raises `CheckFailedError` if a module does not
        compile, and `TreeError` if its bytecode cannot be written.
    """
    if not any(path.endswith(f".{sys.implementation.cache_tag}.pyc") for path in part.members):
        yield lambda _changed: None
        return
    with contextlib.ExitStack() as stack:
        processes = []
        for _ in range(_PROCESSES):
            processes.append(stack.enter_context(_start()))
            stack.callback(processes[-1].kill)
        yield partial(_compile, processes, part)


def _start() -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            # Without site: its .pth files could run code that changes the bytes, and take time.
            [sys.executable, "-I", "-S", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    except OSError as error:
        raise TreeError(
            f"{sys.executable} cannot be started to compile modules: {error.strerror}",
            remedy="let it have more processes or memory, and run the command again",
        ) from None


def _compile(
    processes: Sequence[subprocess.Popen[str]], part: ExtractedPackage, changed: Iterable[str]
) -> None:
    files = (part.tree.file(path) for path in changed if path.endswith(".py"))
    modules = [
        file
        for file in files
        if file.is_file() and not file.is_symlink() and not _is_template(part, file)
    ]
    modules.sort(key=lambda file: (-file.stat().st_size, file))
    # The same modules give the same shares, and so the same bytes.
    shares: list[list[Path]] = [[] for _ in processes]
    for module in modules:
        min(shares, key=lambda share: sum(each.stat().st_size for each in share)).append(module)
    for process, share in zip(processes, shares, strict=True):
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        # A process that ended before it read its work has a status that says so.
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            json.dump([_work(part, source) for source in share], stdin)
    for process in processes:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        said = process.stderr.read().strip().splitlines()
        status = process.wait()
        reason = said[-1] if said else f"status {status}"
        if status == _DOES_NOT_COMPILE:
            raise CheckFailedError(
                f"{part.tree.label}: a patched module does not compile: {reason}",
                remedy="correct the patch, and prove the series with `pkgtools lock`",
            )
        if status != 0:
            raise TreeError(
                f"the Python that compiles modules ended early: {reason}",
                remedy="free memory, or space in TMPDIR, and run the command again",
            )


def _is_template(part: ExtractedPackage, source: Path) -> bool:
    """Whether a file does not compile, and did not before; pip passes over such."""
    before = part.members.get(source.relative_to(part.root).as_posix())
    compiled = Path(_work(part, source)[1]).relative_to(part.root).as_posix()
    if before is None or compiled in part.members:
        return False
    blobs = (Blob(before.data), Blob(read_bytes(source)))
    return all(compile_error(source.name, blob) is not None for blob in blobs)


def _work(part: ExtractedPackage, source: Path) -> tuple[str, str, str]:
    """Return a module's file, its bytecode's, and the name by which a traceback knows it."""
    compiled = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
    name = posixpath.join("/", source.relative_to(part.root).as_posix())
    return str(source), str(compiled), name
