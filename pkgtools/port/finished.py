"""The finished steps of a port that waits for a person: `--continue` does not make them again.

``NEWDIR.port/finished.json`` has their reports and what each patch does to the last of their
sources; the contents of files lie in ``kept/``, named by their blob id. Both can be removed at
any time: then the port starts from its first source again.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pkgtools.authoring.applied import AppliedPatch
from pkgtools.authoring.gitdiff import FileChange
from pkgtools.blob import Blob
from pkgtools.errors import PkgtoolsError
from pkgtools.patch import Patch
from pkgtools.port.model import StepReport
from pkgtools.util.files import read_bytes, replace_file

_NAME: Final = "finished.json"
_CONTENTS: Final = "kept"


@dataclass(frozen=True)
class Finished:
    """Steps without a conflict, and the series behind the last of them."""

    patches: tuple[AppliedPatch, ...]
    steps: tuple[StepReport, ...]


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    mode: int


class _Change(msgspec.Struct, forbid_unknown_fields=True):
    old_path: str
    path: str
    before: _Content | None
    after: _Content | None


class _StepsFile(msgspec.Struct, forbid_unknown_fields=True):
    series: str
    """A digest of the patches; other patches need other steps."""
    stops: list[str]
    steps: tuple[StepReport, ...]
    changes: list[list[_Change]]
    """Of each patch, in order."""


def keep(folder: Path, patches: Sequence[Patch], stops: Sequence[str], finished: Finished) -> None:
    """Write what is finished into the folder of a port."""
    (folder / _CONTENTS).mkdir(exist_ok=True)

    def content(blob: Blob | None) -> _Content | None:
        if blob is None:
            return None
        path = folder / _CONTENTS / blob.id
        if not path.exists():
            replace_file(path, blob.data)
        return _Content(blob.id, blob.mode)

    changes = [
        [_Change(c.old_path, c.path, content(c.before), content(c.after)) for c in applied.changes]
        for applied in finished.patches
    ]
    file = _StepsFile(_digest(patches), list(stops), finished.steps, changes)
    replace_file(folder / _NAME, msgspec.json.encode(file))


def kept(folder: Path, patches: Sequence[Patch], stops: Sequence[str]) -> Finished | None:
    """Return the finished steps, or None if they are missing or of another series."""
    path = folder / _NAME
    if not path.is_file():
        return None

    def blob(content: _Content | None) -> Blob | None:
        if content is None:
            return None
        found = Blob(read_bytes(folder / _CONTENTS / content.id), content.mode)
        if found.id != content.id:
            raise ValueError(content.id)
        return found

    try:
        file = msgspec.json.decode(read_bytes(path), type=_StepsFile)
        if (file.series, file.stops) != (_digest(patches), list(stops)):
            return None
        applied = [
            AppliedPatch(
                patch,
                tuple(
                    FileChange(c.old_path, c.path, blob(c.before), blob(c.after)) for c in changes
                ),
            )
            for patch, changes in zip(patches, file.changes, strict=True)
        ]
    except (OSError, PkgtoolsError, ValueError, msgspec.DecodeError):
        return None  # damaged: what is kept only saves time
    return Finished(tuple(applied), file.steps)


def _digest(patches: Sequence[Patch]) -> str:
    digest = hashlib.sha256()
    for patch in patches:
        digest.update(f"{patch.name}\0{len(patch.data)}\0".encode() + patch.data)
    return digest.hexdigest()
