"""The finished steps of a port that waits for a person: `--continue` does not make them again.

``NEWDIR.port/finished.json`` has their reports and what each patch does to the last of their
sources. It can be removed at any time: then the port starts from its first source again.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pkgtools.authoring.applied import AppliedPatch
from pkgtools.authoring.gitdiff import FileChange
from pkgtools.errors import PkgtoolsError
from pkgtools.patch import Patch
from pkgtools.port.model import StepReport
from pkgtools.util.files import read_bytes, replace_file

_NAME: Final = "finished.json"


@dataclass(frozen=True)
class Finished:
    """Steps without a conflict, and the series behind the last of them."""

    patches: tuple[AppliedPatch, ...]
    steps: tuple[StepReport, ...]


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    series: str
    """A digest of the patches; other patches need other steps."""
    stops: list[str]
    steps: tuple[StepReport, ...]
    changes: list[tuple[FileChange, ...]]
    """Of each patch, in order."""


class _KeptFile(msgspec.Struct, forbid_unknown_fields=True):
    sha256: str
    content: msgspec.Raw


def keep(folder: Path, patches: Sequence[Patch], stops: Sequence[str], finished: Finished) -> None:
    """Write what is finished into the folder of a port."""
    changes = [applied.changes for applied in finished.patches]
    content = msgspec.json.encode(_Kept(_digest(patches), list(stops), finished.steps, changes))
    file = _KeptFile(hashlib.sha256(content).hexdigest(), msgspec.Raw(content))
    replace_file(folder / _NAME, msgspec.json.encode(file))


def kept(folder: Path, patches: Sequence[Patch], stops: Sequence[str]) -> Finished | None:
    """Return the finished steps, or None if they are missing, damaged or of another series."""
    path = folder / _NAME
    if not path.is_file():
        return None
    try:
        file = msgspec.json.decode(read_bytes(path), type=_KeptFile)
        found = msgspec.json.decode(file.content, type=_Kept)
    except (OSError, PkgtoolsError, ValueError, msgspec.DecodeError):
        return None
    is_whole = hashlib.sha256(file.content).hexdigest() == file.sha256
    if not is_whole or (found.series, found.stops) != (_digest(patches), list(stops)):
        return None
    applied = map(AppliedPatch, patches, found.changes)
    return Finished(tuple(applied), found.steps)


def _digest(patches: Sequence[Patch]) -> str:
    digest = hashlib.sha256()
    for patch in patches:
        digest.update(f"{patch.name}\0{len(patch.data)}\0".encode() + patch.data)
    return digest.hexdigest()
