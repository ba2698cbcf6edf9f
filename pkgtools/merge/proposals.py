"""Proposals for conflicts: the likely answers, which a person takes or leaves.

A rule of the merge is certain; a proposal only passes the checks. So it never goes into a
result by itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pkgtools.merge.checks.faults import find_faults
from pkgtools.merge.comparison import reads_as_well
from pkgtools.merge.lines import has_crlf, splice
from pkgtools.merge.markers import ConflictLines, conflicts_in
from pkgtools.merge.model import How, Merge, OtherFiles, Proposal
from pkgtools.merge.rules.twins import doubled
from pkgtools.merge.rules.words import merge_words
from pkgtools.merge.syntax.align import matching_blocks
from pkgtools.merge.syntax.blocks import is_sound, parse
from pkgtools.merge.syntax.names import owner_of_lines
from pkgtools.merge.versions import Versions
from pkgtools.util.lines import split

_WORD: Final = re.compile(rb"\w+|[^\w\s]")
_PART: Final = re.compile(rb"[A-Z]*[a-z]{3,}|[A-Z]{3,}")
_REWRITTEN: Final = 1 / 3
"""Where a side keeps less of the words, it has written the lines anew."""
_MOSTLY: Final = 0.9
_MANY: Final = 3
"""One in so many new words of the patch that upstream has, too, names the same thing."""
_UPSTREAMS: Final = ("left-out", "upstream-rewrote", "upstream-has-both", "upstream-has-another")
"""Rules that leave the patch's lines out; the first two drop what these do."""
_ALIKE: Final = 2 / 3
"""Two lines with so many words in common are of one kind."""
_LINES: Final = 50
"""The most lines of base for which like ones are looked for; that takes the square in time."""
_TELLING: Final = 3
"""The least words that say something about a change."""


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
    likely = partial(_candidates, _surroundings(versions, conflicts))
    taken: dict[int, Proposal] = {}
    # One can need what another one brings; only then is one taken that nothing speaks for.
    for find in (likely, likely, _as_patched, likely, _as_patched, _left_out):
        for number, conflict in enumerate(conflicts):
            for text, rule in find(conflict) if number not in taken else ():
                proposal = Proposal(conflict.chunks, conflict.lines, text, rule)
                ends = not text or text.endswith(b"\n")
                if ends and holds(versions, merged, others, [*taken.values(), proposal]):
                    taken[number] = proposal
                    break
    return replace(merged, proposals=tuple(taken[number] for number in sorted(taken)))


def filled(data: bytes, proposals: Sequence[Proposal]) -> bytes:
    """Return a merged file with the proposals in it."""
    chosen = sorted(proposals, key=lambda p: p.lines.start)
    return b"".join(splice(split(data), ((p.lines, [p.text]) for p in chosen)))


def likely_content(base: bytes, ours: bytes, merged: Merge) -> bytes:
    """Return what a Python file may define once its conflicts are decided."""
    chosen = [p for p in merged.proposals if p.rule not in _UPSTREAMS[:2]]
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


@dataclass(frozen=True)
class _Surroundings:
    """What a file tells about the answers to its conflicts."""

    doubled: frozenset[int]
    """The lines of ours that add what upstream adds as well, or another of that name."""
    known: frozenset[bytes]
    """The parts of the names in base."""
    rewritten: frozenset[ConflictLines]
    """The conflicts in definitions in which upstream has written the lines of one anew."""


def _surroundings(versions: Versions, conflicts: Sequence[ConflictLines]) -> _Surroundings:
    owners = {c: owner_of_lines(versions.ours, c.chunks[0].new_lines) for c in conflicts}
    changed = {owners[c] for c in conflicts if _WordChange.between(c.base, c.theirs).is_rewriting}
    return _Surroundings(
        frozenset(b.line - 1 for b in doubled(versions.base, versions.ours, versions.theirs)),
        frozenset(_parts(_WORD.findall(versions.base.source))),
        frozenset(c for c in conflicts if owners[c] in changed - {()}),
    )


def _candidates(around: _Surroundings, conflict: ConflictLines) -> Iterator[tuple[bytes, str]]:
    """Yield what may be an answer and its rule, the likeliest first."""
    base, ours, theirs = conflict.base, conflict.ours, conflict.theirs
    mine, upstream = _WordChange.between(base, ours), _WordChange.between(base, theirs)
    if upstream.is_rewriting or conflict in around.rewritten:
        yield theirs, "upstream-rewrote"
        return
    if mine.holds(upstream, 1):
        yield ours, "ours-has-both"
    if upstream.holds(mine, _MOSTLY):
        yield theirs, "upstream-has-both"
    lines = {line for c in conflict.chunks for line in c.new_lines}
    new, told = (_parts(change.added) - around.known for change in (mine, upstream))
    is_named = not base and _MANY * len(new & told) >= len(new) > 0
    if is_named or lines & around.doubled:
        yield theirs, "upstream-has-another"
        return
    merged = (merge_both(base, ours, theirs) for merge_both in (_merge_alike, merge_words))
    yield from ((words, "words") for words in dict.fromkeys(merged) if words is not None)


def _as_patched(conflict: ConflictLines) -> Iterator[tuple[bytes, str]]:
    yield conflict.ours, "as-patched"


def _left_out(conflict: ConflictLines) -> Iterator[tuple[bytes, str]]:
    yield conflict.theirs, "left-out"


def _parts(words: Sequence[bytes]) -> set[bytes]:
    """Return what names consist of: `kv_cache` and `KVCache` of the same."""
    return {part.lower() for word in words for part in _PART.findall(word)}


def _merge_alike(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Merge words where each side does to lines of the other one what it does to their like.

    Example: upstream makes ``f(a, b)`` of ``f(a)``, and the patch adds ``f(c)``.
    """
    texts = [[line.lstrip(b" ") for line in split(text)] for text in (base, ours, theirs)]
    mine, upstream = (_edits(texts[0], side) for side in texts[1:])
    # Where both sides remove a line, each may have something else for it.
    if len(texts[0]) > _LINES or any(not (mine[line] or upstream[line]) for line in texts[0]):
        return None
    made = _edited(base, mine, upstream), _edited(ours, upstream), _edited(theirs, mine)
    clear = [text for text in made if text is not None]
    return merge_words(*clear) if len(clear) == len(made) else None


def _edits(old: Sequence[bytes], new: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return what a side has of each line: the same, the added line that is like it, or nothing."""
    added = [line for line in new if line not in old]
    return {line: line if line in new else _likest(line, added) for line in old}


def _edited(text: bytes, *sides: Mapping[bytes, bytes]) -> bytes | None:
    """Return a text with each line as some sides would have it; None if that is not clear."""
    made = []
    for line in split(text):
        code = line.lstrip(b" ")
        indent = line.removesuffix(code)
        for edits in sides:
            like = _likest(code, [*edits])
            merged = merge_words(like, edits[like], code) if like else code
            if merged is None or (like not in (b"", code) and not edits[like]):
                return None
            code = merged
        made.append(indent + code if code else b"")
    return b"".join(made)


def _likest(line: bytes, lines: Sequence[bytes]) -> bytes:
    """Return the first line that has most of the words of another one, or nothing."""
    words = Counter(_WORD.findall(line))

    def share(other: bytes) -> float:
        theirs = Counter(_WORD.findall(other))
        return 2 * (words & theirs).total() / max((words + theirs).total(), 1)

    best = line if line in lines else max(lines, key=share, default=b"")
    return best if share(best) >= _ALIKE else b""


@dataclass(frozen=True)
class _WordChange:
    """The words that one side adds, and whether much of the rest is left."""

    added: tuple[bytes, ...]
    lines: Counter[bytes]
    """The lines that it adds."""
    is_rewriting: bool
    """Whether only few of the words of base are left."""

    @classmethod
    def between(cls, base: bytes, side: bytes) -> _WordChange:
        """Return the change from `base` to `side`."""
        old, new = _WORD.findall(base), _WORD.findall(side)
        pairs = list(matching_blocks(old, new))
        found = {n for _, b, size in pairs for n in range(b, b + size)}
        return cls(
            tuple(word for n, word in enumerate(new) if n not in found),
            Counter(map(bytes.strip, split(side))) - Counter(map(bytes.strip, split(base))),
            len(found) < _REWRITTEN * len(old),
        )

    def holds(self, other: _WordChange, share: float) -> bool:
        """Whether this change has at least a share of what another one adds."""
        if len(other.added) < _TELLING:
            return False
        common = Counter(self.added) & Counter(other.added)
        return common.total() >= share * len(other.added) or other.lines <= self.lines


def holds(
    versions: Versions, merged: Merge, others: OtherFiles, chosen: Sequence[Proposal]
) -> bool:
    """Whether the file passes the checks with the last of some proposals in it, too."""
    made = accepted(merged, chosen)
    if not reads_as_well(parse(made.data), versions.theirs):
        return False
    mine = {chunk for p in chosen for chunk in p.chunks}
    known = {c.chunk for c in made.chunks} - {*chosen[-1].chunks}
    return mine.isdisjoint(find_faults(versions, made, others, known, strict=True))


def accepted(merged: Merge, chosen: Sequence[Proposal]) -> Merge:
    """Return a merge with proposals in the place of their conflicts."""
    rules = {chunk: p.rule for p in chosen for chunk in p.chunks}
    hows = How.MERGED, How.ABSORBED
    chunks = tuple(
        replace(c, how=hows[rule in _UPSTREAMS], rules=(rule,), reason=None)
        if (rule := rules.get(c.chunk))
        else c
        for c in merged.chunks
    )
    return Merge(filled(merged.data, chosen), chunks, merged.others)
