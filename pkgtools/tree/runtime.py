"""The Python that a source runs on, as far as it is known, and what that compiles.

The Python of an environment is the one whose site-packages folder the package lies in. A wheel
and a checkout say which versions they are for (``Requires-Python``, PEP 345; PEP 621).
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from pkgtools.blob import Blob
from pkgtools.errors import PkgtoolsError
from pkgtools.plan.compiling import Compile, compile_here
from pkgtools.source.base import Source
from pkgtools.source.requires import required_python
from pkgtools.source.tree import Tree
from pkgtools.source.wheel import WheelSource
from pkgtools.util.files import read_bytes

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


_LIBRARY: Final = re.compile(r"(?:.*/)?lib(?:64)?/python(\d+)\.(\d+)(?:/.*)?")
"""Where a version of Python has its packages: ``lib/python3.12/site-packages`` (sysconfig)."""
_HERE: Final = sys.version_info[:2]
_SECONDS: Final = 60
_LARGE: Final = 1 << 20
_SCRIPT: Final = """
import base64, json, sys, warnings
warnings.simplefilter("ignore")
found = {}
for path, data in json.load(sys.stdin).items():
    try:
        compile(base64.b64decode(data), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        found[path] = str(error) or type(error).__name__
print()
print(json.dumps(found))
"""
_PROJECT: Final = "pyproject.toml"
_NOT_FOUND: Final = 127  # of a shell that has no such command
_missing: Final[set[str]] = set()
"""Commands that do not run: each is started once."""


class _Project(msgspec.Struct):
    requires: str | None = msgspec.field(default=None, name="requires-python")


class _ProjectFile(msgspec.Struct):
    project: _Project = msgspec.field(default_factory=_Project)


def compile_for(source: Source) -> Compile:
    """Return what compiles files with the Python that a source runs on.

    Where that is another one and cannot be run, nothing is said of what this Python does not
    compile: newer syntax is not a fault.
    """
    source = getattr(source, "tree", None) or source  # of a tree as it was, or will be
    if isinstance(source, Tree):
        library = _LIBRARY.fullmatch(source.place)
        version = (int(library[1]), int(library[2])) if library else None
        if source.python not in (None, sys.executable) and version != _HERE:
            return partial(_compile_with, str(source.python))
        if version not in (None, _HERE):
            found = source.interpreter or shutil.which("python{}.{}".format(*version))
            if found is not None:
                return partial(_compile_with, str(found))
            return _say_nothing if version > _HERE else compile_and_remember
    required = _required(source)
    if required is None:
        return compile_and_remember
    if required.contains("{}.{}.{}".format(*sys.version_info)):
        # ast.parse(feature_version=...) checks the syntax of the oldest one without running it.
        oldest = next((minor for minor in range(7, _HERE[1]) if _allows(required, minor)), None)
        return partial(compile_and_remember, oldest=oldest)
    for minor in range(6, 40):
        if _allows(required, minor) and (found := shutil.which(f"python3.{minor}")):
            return partial(_compile_with, found)
    return _say_nothing


def _allows(required: SpecifierSet, minor: int) -> bool:
    # A late patch release: `>=3.9.2` must count as allowing 3.9.
    return required.contains(f"3.{minor}.99")


def _say_nothing(_files: Mapping[str, Blob]) -> dict[str, str]:
    return {}


def _required(source: Source) -> SpecifierSet | None:
    """Return the versions of Python that a wheel or a checkout is for, if it says so."""
    text = None
    if isinstance(source, WheelSource):
        text = required_python(source.metadata)
    elif not isinstance(source, Tree) or source.is_checkout:
        prefix = source.upstream.prefix if source.upstream is not None else ""
        # A partial clone may not have it, and the file is the upstream's to write as it likes.
        with contextlib.suppress(PkgtoolsError, msgspec.DecodeError):
            blob = source.read(f"{prefix}{_PROJECT}") or source.read(_PROJECT)
            if blob is not None:
                text = msgspec.toml.decode(blob.data, type=_ProjectFile).project.requires
    if not text:
        return None
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415

    with contextlib.suppress(InvalidSpecifier):
        return SpecifierSet(text, prereleases=True)
    return None


def _compile_with(python: str, files: Mapping[str, Blob]) -> dict[str, str]:
    if not files or python in _missing:
        return {}
    coded = {path: base64.b64encode(blob.data).decode() for path, blob in files.items()}
    try:
        done = subprocess.run(
            [python, "-I", "-c", _SCRIPT],
            input=json.dumps(coded),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, str])
    except (OSError, subprocess.SubprocessError, IndexError, msgspec.DecodeError) as error:
        # pyenv has a shim for every version that any of its Pythons has.
        if isinstance(error, subprocess.CalledProcessError) and error.returncode == _NOT_FOUND:
            _missing.add(python)
        return {}  # it cannot run here, so its version is unknown


def compile_and_remember(files: Mapping[str, Blob], oldest: int | None = None) -> dict[str, str]:
    """Return why this Python, or an older one (``3.oldest``), does not compile some files, by path.

    The ids of those that compile are kept in the user's cache: a release's files are verified
    again and again, and compiling takes three times as long as the rest.
    """
    from pkgtools.util.cache import cache_folder  # noqa: PLC0415 - slow to import

    folder = cache_folder("compiled")
    key = f"-3.{oldest}" if oldest is not None else ""
    path = folder / f"{sys.implementation.cache_tag}-{sys.hexversion:x}{key}" if folder else None
    known: set[str] = set()
    if path is not None:
        with contextlib.suppress(OSError):
            known = set(read_bytes(path).decode("ascii", "replace").split())
    unknown = {name: blob for name, blob in files.items() if blob.id not in known}
    errors = compile_here(unknown, oldest)
    new = {blob.id for name, blob in unknown.items() if name not in errors}
    if path is not None and new:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb" if len(known) * 41 > _LARGE else "ab", buffering=0) as file:
                file.write("".join(f"{each}\n" for each in sorted(new)).encode())
    return errors
