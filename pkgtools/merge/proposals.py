"""Proposals for conflicts: the likely answers, which a person takes or leaves.

A rule of the merge is certain; a proposal only passes the checks. So it never goes into a
result by itself.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pkgtools.merge.blocks import is_sound, parse
from pkgtools.merge.check import reads_as_well
from pkgtools.merge.faults import find_faults
from pkgtools.merge.lines import has_crlf
from pkgtools.merge.markers import conflicts_in
from pkgtools.merge.model import How, Merge, Proposal
from pkgtools.merge.twins import doubled
from pkgtools.merge.versions import Versions
from pkgtools.merge.words import merge_words
from pkgtools.util.lines import split

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pkgtools.merge.markers import ConflictLines
    from pkgtools.merge.model import OtherFiles


def with_proposals(merged: Merge, sides: tuple[bytes, bytes, bytes], others: OtherFiles) -> Merge:
    """Return a merge of a Python file with proposals; together they pass the checks, too.

    Args:
        merged: the merge.
        sides: base, ours and theirs.
        others: what is known of other files.

    """
    if all(map(has_crlf, sides)):
        base, ours, theirs = (text.replace(b"\r\n", b"\n") for text in sides)
        plain = replace(merged, data=merged.data.replace(b"\r\n", b"\n"))
        found = with_proposals(plain, (base, ours, theirs), others).proposals
        texts = (replace(p, text=p.text.replace(b"\n", b"\r\n")) for p in found)
        return replace(merged, proposals=tuple(texts))
    versions = Versions(*sides, others.find)
    if not versions.are_sound:
        return merged
    conflicts = list(conflicts_in(*sides[:2], merged))
    both = {block.line - 1 for block in doubled(versions.base, versions.ours, versions.theirs)}
    taken: dict[int, Proposal] = {}
    for _ in range(2):  # one can need what another one brings
        for number, conflict in enumerate(conflicts):
            for proposal in _candidates(conflict, both) if number not in taken else ():
                if _holds(versions, merged, others, [*taken.values(), proposal]):
                    taken[number] = proposal
                    break
    return replace(merged, proposals=tuple(taken[number] for number in sorted(taken)))


def filled(data: bytes, proposals: Sequence[Proposal]) -> bytes:
    """Return a merged file with the proposals in it."""
    lines = split(data)
    for proposal in sorted(proposals, key=lambda p: p.lines.start, reverse=True):
        lines[proposal.lines.start : proposal.lines.stop] = [proposal.text]
    return b"".join(lines)


def likely_content(base: bytes, ours: bytes, merged: Merge) -> bytes:
    """Return what a Python file may define once its conflicts are decided."""
    chosen = list(merged.proposals)
    known = {p.lines.start for p in chosen}
    for conflict in conflicts_in(base, ours, merged):
        if conflict.lines.start in known:
            continue
        for text in (conflict.theirs + conflict.ours, conflict.ours):
            more = Proposal(conflict.chunks, conflict.lines, text, "")
            if is_sound(parse(filled(merged.data, [*chosen, more]))):
                chosen.append(more)
                break
    return filled(merged.data, chosen)


def _candidates(conflict: ConflictLines, both: Collection[int]) -> Iterator[Proposal]:
    """Yield what may be an answer, the likeliest first.

    Args:
        conflict: the lines.
        both: the lines of ours that add what upstream adds as well, or another of that name.

    """
    base, ours, theirs = conflict.base, conflict.ours, conflict.theirs
    found: list[tuple[bytes, str]] = []
    if base not in (ours, theirs):
        if _holds_words(ours, theirs) and _holds_words(theirs, base):
            found.append((ours, "ours-has-both"))
        if _holds_words(theirs, ours) and _holds_words(ours, base):
            found.append((theirs, "upstream-has-both"))
    if any(line in both for c in conflict.chunks for line in range(c.new, c.new_end)):
        found.append((theirs, "upstream-has-another"))
    else:
        before = _before_a_new_block(base, ours, theirs)
        found += [(before, "before-new-block")] if before else []
        words = merge_words(base, ours, theirs)
        found += [(words, "words")] if words is not None else []
    for text, rule in found:
        if not text or text.endswith(b"\n"):
            yield Proposal(conflict.chunks, conflict.lines, text, rule)


def _before_a_new_block(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return what ours adds above lines that upstream put into a block, above that block."""
    added = ours.removesuffix(base)
    first, header = (next(iter(text.splitlines()), b"") for text in (base, theirs))
    inside = re.search(rb"^( *)" + re.escape(first.strip()) + rb"$", theirs, re.MULTILINE)
    if not base or added == ours or inside is None or not first.strip():
        return None
    wrapped = (
        len(inside[1]) > len(first) - len(first.lstrip()) == len(header) - len(header.lstrip())
    )
    return added + theirs if wrapped else None


def _holds_words(whole: bytes, part: bytes) -> bool:
    """Whether `whole` has the words of `part` in the same order."""
    rest = iter(whole.split())
    return all(word in rest for word in part.split())


def _holds(
    versions: Versions, merged: Merge, others: OtherFiles, chosen: Sequence[Proposal]
) -> bool:
    """Whether the file passes the checks with the last of some proposals in it, too."""
    rules = {chunk: p.rule for p in chosen for chunk in p.chunks}
    chunks = tuple(
        replace(c, how=How.MERGED, rules=(rules[c.chunk],), reason=None) if c.chunk in rules else c
        for c in merged.chunks
    )
    made = Merge(filled(merged.data, chosen), chunks, merged.others)
    if not reads_as_well(parse(made.data), versions.theirs):
        return False
    known = {c.chunk for c in chunks} - {*chosen[-1].chunks}
    return rules.keys().isdisjoint(find_faults(versions, made, others, known))
