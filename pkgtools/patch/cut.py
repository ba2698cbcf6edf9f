"""A patch in two: the sections of some files, and those of all others."""

from collections.abc import Callable

from pkgtools.errors import MalformedError
from pkgtools.patch.model import FilePatch, Patch
from pkgtools.patch.parser import parse_patch
from pkgtools.patch.section import BELONGS_BELOW
from pkgtools.util.lines import split


def cut(patch: Patch, keep: Callable[[str], bool]) -> tuple[Patch | None, Patch | None]:
    """Return the part of a patch with the files that `keep` accepts, and the other part.

    Both have the whole commit message, and every section byte by byte. A patch that lies on
    one side comes back as it is; a file that moves from one part to the other is refused.
    """
    kept = [keep(file.new_path) for file in patch.files]
    for file in patch.files:
        if keep(file.old_path) != keep(file.new_path):
            raise MalformedError(
                f"{patch.name}:{file.line}: {file.old_path} moves to {file.new_path}: one of them "
                "is outside the package",
                remedy="take this section out of the patch by hand",
            )
    if all(kept):
        return patch, None
    if not any(kept):
        return None, patch
    return _part(patch, kept, wanted=True), _part(patch, kept, wanted=False)


def _part(patch: Patch, kept: list[bool], *, wanted: bool) -> Patch:
    lines = split(patch.text)
    starts = [_start(lines, patch.files, number) for number in range(len(patch.files))]
    out = lines[: starts[0]]
    for start, end, is_kept in zip(starts, [*starts[1:], len(lines)], kept, strict=True):
        if is_kept is wanted:
            out += lines[start:end]
    return parse_patch(patch.name, b"".join(out), patch.level)


def _start(lines: list[bytes], files: tuple[FilePatch, ...], number: int) -> int:
    at = files[number].line - 1
    while at and BELONGS_BELOW.match(lines[at - 1]):
        at -= 1
    return at
