"""Bytecode for the modules of an image that were changed.

What the base had compiled is stale and goes; without new files every start of a
read-only container would compile them again. They are of the kind that Python holds
against the source's hash (PEP 552), which no timestamp can make false.
"""

from __future__ import annotations

import json
import posixpath
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from pkgtools.errors import CheckFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pkgtools.image.tree import ExtractedPackage

# In a process of its own: what else was compiled or interned changes a .pyc's bytes.
_SCRIPT: Final = """
import json, os, py_compile, sys
os.umask(0o022)
for source, compiled, name in json.load(sys.stdin):
    py_compile.compile(
        source, compiled, name, doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
    )
"""


def compile_again(part: ExtractedPackage, changed: Sequence[str]) -> None:
    """Compile the `changed` modules, if the base had bytecode of this Python's kind.

    Bytecode belongs to one version of Python; for another one's images, none is made.

    Raises:
        CheckFailedError: a module does not compile.

    """
    tag = sys.implementation.cache_tag
    if not any(path.endswith(f".{tag}.pyc") for path in part.members):
        return
    work = []
    for path in changed:
        source = part.tree.file(path)
        if source.suffix == ".py" and source.is_file() and not source.is_symlink():
            compiled = source.parent / "__pycache__" / f"{source.stem}.{tag}.pyc"
            name = posixpath.join("/", source.relative_to(part.root).as_posix())
            work.append((str(source), str(compiled), name))
    done = subprocess.run(
        [sys.executable, "-I", "-c", _SCRIPT],
        input=json.dumps(work),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise CheckFailedError(
            f"{part.tree.label}: a patched module does not compile: {reason[0]}",
            remedy="correct the patch, and prove the series with `pkgtools lock`",
        )
