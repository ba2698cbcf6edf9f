"""The blob ids of a patch's ``index`` lines, held against the contents that `lock` proved.

git writes them (https://git-scm.com/docs/diff-format), abbreviated or in full, and applies a
patch whose context fits whatever they say. Where they disagree, the patch was edited by hand,
or made for another revision.
"""

from collections.abc import Iterator, Sequence

from pkgtools.catalog import LockedRevision
from pkgtools.patch import FilePatch, Patch

_LENGTH = 40


def index_notes(patches: Sequence[Patch], revisions: Sequence[LockedRevision]) -> tuple[str, ...]:
    """Return the contradictions of a series that all its revisions show.

    A shared patch serves several revisions, so only what it makes of its own content counts.
    """
    found = [dict(_disagreements(patches, revision)) for revision in revisions]
    common = set.intersection(*map(set, found)) if found else set()
    return tuple(note for at, note in found[0].items() if at in common) if found else ()


def _disagreements(
    patches: Sequence[Patch], revision: LockedRevision
) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield each contradiction of one revision's contents, with its place."""
    files = {file.path: file for file in revision.file}
    # git's mode can precede an id.
    chains = {path: [s.rpartition(":")[2] for s in file.chain] for path, file in files.items()}
    for patch in patches:
        old = {path: chain[0] for path, chain in chains.items()}
        for path, file in files.items():
            if patch.name in file.patches:
                del chains[path][0]
        for file_patch in patch.files:
            if file_patch.new_path in chains:
                before, after = old.get(file_patch.old_path), chains[file_patch.new_path][0]
                note = _note(patch, file_patch, before, after)
                if note is not None:
                    yield (patch.name, file_patch.line), note


def _note(patch: Patch, file: FilePatch, before: str | None, after: str) -> str | None:
    old_fits = before is None or _fits(file.old_id, before)
    if (old_fits and _fits(file.new_id, after)) or (patch.is_shared and not old_fits):
        return None
    stated, found = (file.new_id, after) if old_fits else (file.old_id, before)
    what = "makes" if old_fits else "changes"
    return (
        f"{patch.name}:{file.line}: {file.new_path}: the index line says that the patch {what} "
        f"{stated}, and it is {found[: len(stated or '')] if found else 'no file'}"
    )


def _fits(stated: str | None, found: str) -> bool:
    """Whether an id is the content's, or is none of SHA-1, which has 40 digits at most."""
    if stated is None or len(stated) > _LENGTH:
        return True
    return found.startswith(stated) if stated.strip("0") else not found
