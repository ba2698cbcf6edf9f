"""Find faults of a merged file, chunk by chunk.

A chunk with a fault conflicts in the next round. Example: the patch calls a function that upstream
renamed, so its lines went over and call what is not there.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection
from keyword import kwlist
from typing import Final

from pkgtools.merge.checks.attributes import (
    attribute_of_a_part,
    lost_attribute,
    undefined_attribute,
    unread_attribute,
)
from pkgtools.merge.checks.calls import misawaited, misgiven, unfit_callers
from pkgtools.merge.checks.derived import derived_option
from pkgtools.merge.checks.flow import crossed_by_patch, crossed_name, name_for_types
from pkgtools.merge.checks.formats import misplaced
from pkgtools.merge.checks.inherited import field_behind_default, lone_field, misfit_in_class
from pkgtools.merge.checks.landing import WORD, LandedFile, LandedLines
from pkgtools.merge.checks.lost import lost_import, lost_name, orphan
from pkgtools.merge.checks.methods import refused_method_call
from pkgtools.merge.checks.reordered import reordered
from pkgtools.merge.checks.reshaped import other_siblings, other_subject, other_value
from pkgtools.merge.checks.undone import undone
from pkgtools.merge.checks.unproven import unproven_imports
from pkgtools.merge.checks.unreachable import unreachable
from pkgtools.merge.checks.uses import (
    keyword_twice,
    lone_definition,
    other_number_of_values,
    other_return,
    refused_call,
    returned_by_generator,
)
from pkgtools.merge.comparison import reads_as_well
from pkgtools.merge.lines import Chunk, encoding_of, moves
from pkgtools.merge.model import ChunkMerge, How, Merge, OtherFiles
from pkgtools.merge.syntax.blocks import parse
from pkgtools.merge.syntax.given import repeated
from pkgtools.merge.syntax.modules import Module
from pkgtools.merge.syntax.names import bound, definitions, owner_of_lines
from pkgtools.merge.versions import Versions

_DEFINED: Final = re.compile(rb"\b(?:class|def)\s+(\w+)")
_ANYWHERE: Final = {b"self", b"cls", *map(str.encode, kwlist)}
"""Words that tell nothing of what lines use."""


def find_faults(
    versions: Versions,
    merged: Merge,
    others: OtherFiles,
    known: Collection[Chunk] = (),
    *,
    strict: bool = False,
) -> dict[Chunk, str]:
    """Return the chunks that are wrong in the result, each with the reason.

    Args:
        versions: the files.
        merged: the result.
        others: what is known of other files.
        known: chunks whose names and uses were looked at before.
        strict: whether names count that lines of ours use and the result does not.
    """
    if not versions.are_sound:
        return {}
    is_new = not merged.conflicts and merged.data != versions.theirs.source
    if is_new and not reads_as_well(parse(merged.data), versions.theirs):
        return {c.chunk: "the result is not Python" for c in merged.chunks}
    paths = ("", *merged.others)
    files = {path: LandedFile(versions, merged, others, path, strict=strict) for path in paths}
    faults: dict[Chunk, str] = {}
    for check in _OF_A_FILE:
        faults |= check(files[""])
    for merge in merged.chunks:
        chunk = merge.chunk
        is_done = merge.how in (How.MOVED, How.MERGED) and chunk.new < chunk.new_end
        if is_done and chunk not in faults and chunk not in known:
            is_moved = "moved-definition" in merge.rules and merged.others
            landed = [files[path] for path in (merged.others if is_moved else [""])]
            found = [_fault_of_chunk(file, merge) for file in landed]
            if all(found):
                faults[chunk] = str(found[0])
    return faults


def misuse_of_file(data: bytes, others: OtherFiles) -> str | None:
    """Return what a file that ours adds uses, and theirs does not have."""
    root, nothing = parse(data).raw[0], parse(b"").raw[0]
    lines = range(data.count(b"\n") + 1)
    made = Module(root, others.package, others.new)
    use = LandedLines(
        base=Module(nothing, others.package, others.old),
        ours=Module(root, others.package, others.old),
        theirs=Module(nothing, others.package, others.new),
        made=made,
        home=made,
        words=frozenset(WORD.findall(data)),
        is_lost=others.is_lost,
        methods=others.methods,
        text=data,
        lines=lines,
        rows=lines,
    )
    return _misuse(use)


def _fault_of_chunk(file: LandedFile, merge: ChunkMerge) -> str | None:
    """Return what a chunk uses, and the file into which it went or its package does not have."""
    use = file.landing(merge.chunk)
    # That rule has looked up the names where its lines are, which upstream may have split off.
    is_named = "joined-names" in merge.rules or not file.versions.upstream
    lost = None if is_named else lost_name(use, whole=not file.merged.conflicts)
    return lost or _misuse(use)


def _misuse(use: LandedLines) -> str | None:
    return next((found for check in _OF_LINES if (found := check(use))), None)


def _doubled(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks after which a name is given more often than either side gives it."""
    found = repeated(file.block, rows=file.added) if file.added else Counter()
    faults = {}
    for name, number in sorted(found.items()):
        sides, word = (file.versions.ours, file.versions.theirs), b"".join(WORD.findall(name)[:1])
        if any(repeated(side, within=word)[name] >= number for side in sides):
            continue
        guilty = [c for c in file.done if name in file.text(c)] or file.done
        shown = name.decode(errors="replace")
        faults.update(dict.fromkeys(guilty, f"the result would have {shown!r} twice"))
    return faults


def _misencoded(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks with bytes that mean other letters in the encoding of theirs."""
    ours, theirs = map(encoding_of, file.versions.lines[1:])
    foreign = [c for c in file.done if not file.text(c).isascii()] if ours != theirs else []
    return dict.fromkeys(foreign, "upstream changed the file's encoding")


def _orphans(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks that rename or remove what new lines of theirs use, here or elsewhere."""
    words = frozenset().union(*(old for old, _ in file.changed_words.values()))
    if not words:
        return {}
    sides = file.theirs.root, file.made.root

    def faults(name: bytes, reason: str) -> dict[Chunk, str]:
        return {c: reason for c, (old, _) in file.changed_words.items() if name in old}

    for name in sorted(words & (bound(sides[0]) - bound(sides[1]))):
        for path in file.others.users(name):
            shown = f"`{name.decode()}` in {path}"
            return faults(name, f"upstream begins to use {shown}, and the patch takes it away")
    for chunk in file.versions.upstream:
        rows = chunk.new_lines
        lost = orphan(sides, rows, words, whole=not file.merged.conflicts)
        if lost is not None:
            shown = lost.decode(errors="replace")
            return faults(lost, f"upstream uses `{shown}`, which the patch takes away")
    return {}


def _half_moved(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks that put elsewhere what upstream takes away, too."""
    gone = [c.chunk for c in file.merged.chunks if c.how is How.ABSORBED]
    old, new, _ = file.versions.lines
    moved = [c for c in file.done if any(moves(one, c, old, new) for one in gone)]
    return dict.fromkeys(moved, "both take these lines away, and the patch puts them elsewhere")


def _strayed(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks that put new lines of theirs into another definition: all that add one."""
    made, theirs = definitions(file.block), definitions(file.versions.theirs)
    adding = [c for c in file.done if _DEFINED.search(file.text(c))]
    for rival in file.versions.upstream if adding and made - theirs else ():
        rows = sorted(file.upstream_landing(rival).rows)
        before = owner_of_lines(file.versions.theirs, rival.new_lines)
        after = owner_of_lines(file.block, range(rows[0], rows[-1] + 1)) if rows else before
        if before != after[: len(before)] and before in made and after in made - theirs:
            shown = b".".join(after).decode(errors="replace")
            return dict.fromkeys(adding, f"what upstream adds would be in `{shown}`")
    return {}


def _outdated(file: LandedFile) -> dict[Chunk, str]:
    """Return chunks that change what new lines of theirs use as it was: the nearest one of each."""
    versions, faults = file.versions, {}
    known = {c.reason for c in file.merged.conflicts}
    words = {}
    for c in file.done if versions.upstream else ():
        owner = owner_of_lines(versions.ours, c.new_lines)
        definitions = {*_DEFINED.findall(file.text(c)), *owner} - {b"__init__"}
        words[c] = (file.changed_words[c][0] | definitions) - _ANYWHERE
    for rival in versions.upstream if words else ():
        used = {*WORD.findall(file.text(rival, 2))}
        guilty = [c for c in file.done if not used.isdisjoint(words[c])]
        if not guilty:
            continue
        use = file.upstream_landing(rival)
        checks = (lost_attribute, refused_call, other_number_of_values)
        found = next((found for check in checks if (found := check(use))), None)
        reason = f"upstream's new lines use what the patch changes: {found}"
        if found is not None and reason not in known:
            faults[min(guilty, key=lambda c: abs(c.old - rival.old))] = reason
    return faults


_OF_A_FILE: Final[tuple[Callable[[LandedFile], dict[Chunk, str]], ...]] = (
    _doubled,
    _orphans,
    _misencoded,
    _outdated,
    crossed_by_patch,
    _half_moved,
    _strayed,
    reordered,
    misgiven,
    misawaited,
    unproven_imports,
    unfit_callers,
    misplaced,
    unreachable,
    undone,
    other_value,
)
"""The last one that finds a fault of a chunk gives the reason."""
_OF_LINES: Final[tuple[Callable[[LandedLines], str | None], ...]] = (
    lost_import,
    lost_attribute,
    undefined_attribute,
    unread_attribute,
    attribute_of_a_part,
    refused_call,
    refused_method_call,
    keyword_twice,
    other_number_of_values,
    other_return,
    returned_by_generator,
    lone_definition,
    derived_option,
    misfit_in_class,
    field_behind_default,
    lone_field,
    crossed_name,
    name_for_types,
    other_subject,
    other_siblings,
)
"""The first one that finds a fault of some lines gives the reason."""
