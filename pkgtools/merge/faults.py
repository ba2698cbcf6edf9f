"""Find faults of a merged file, chunk by chunk."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

import tree_sitter

from pkgtools.merge.blocks import parse
from pkgtools.merge.callers import changed_definitions, unfit_caller
from pkgtools.merge.check import reads_as_well
from pkgtools.merge.flow import crossed_name, name_for_types
from pkgtools.merge.formats import PLACE, texts_with_values
from pkgtools.merge.inherited import field_behind_default, misfit_in_class
from pkgtools.merge.landing import Landing
from pkgtools.merge.lines import Chunk, diff, encoding_of, shift, touches
from pkgtools.merge.lost import lost_import, lost_name, orphan
from pkgtools.merge.model import How, Merge, OtherFiles
from pkgtools.merge.modules import Module
from pkgtools.merge.names import bound, inside, owner_of_lines
from pkgtools.merge.tokens import raw_walk
from pkgtools.merge.twins import repeated
from pkgtools.merge.undone import undone
from pkgtools.merge.unproven import unproven_import
from pkgtools.merge.uses import misuse, outdated, resolve_call, unproven_calls
from pkgtools.merge.versions import Versions
from pkgtools.util.lines import split

_DEFINED: Final = re.compile(rb"\b(?:class|def)\s+(\w+)")
_HANDED: Final = re.compile(rb"\b(?:await|yield) ")
_WORD: Final = re.compile(rb"[\w\x80-\xff]+")
_LEAVES: Final = {"break_statement", "continue_statement", "raise_statement", "return_statement"}


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
    is_new = not merged.conflicts and merged.data != versions.theirs.source
    if is_new and versions.are_sound and not reads_as_well(parse(merged.data), versions.theirs):
        return {c.chunk: "the result is not Python" for c in merged.chunks}
    if not versions.are_sound:
        return {}
    files = {
        path: _Landed(versions, path, data, others, strict=strict)
        for path, data in {"": merged.data, **merged.others}.items()
    }
    faults = {**_doubled(versions, merged, files[""]), **_orphans(versions, merged, others)}
    faults |= _misencoded(versions, merged)
    faults |= {**_outdated(versions, merged, files[""]), **_misgiven(versions, merged, files[""])}
    faults |= {**_misawaited(versions, merged, files[""]), **_unproven_imports(merged, files[""])}
    faults |= _unfit_callers(merged, files[""], others)
    faults |= {**_misplaced(versions, merged), **_unreachable(versions, merged, files[""])}
    done = {c.chunk for c in merged.chunks if c.how is How.MERGED}
    reason = "one side exchanges what the other one exchanges or negates"
    faults |= dict.fromkeys((c for c in undone(versions) if c in done), reason) if done else {}
    for merge in merged.chunks:
        chunk = merge.chunk
        if (
            chunk in faults
            or chunk in known
            or merge.how not in (How.MOVED, How.MERGED)
            or chunk.new == chunk.new_end
        ):
            continue
        moved = "moved-definition" in merge.rules and merged.others
        landed = [files[path] for path in (merged.others if moved else [""])]
        found = [_fault(versions, merged, chunk, file, others) for file in landed]
        if all(found):
            faults[chunk] = str(found[0])
    return faults


def _doubled(versions: Versions, merged: Merge, file: _Landed) -> dict[Chunk, str]:
    """Return the chunks after which a name is given more often than either side gives it."""
    found = repeated(parse(merged.data), rows=file.added) if file.added else Counter()
    faults = {}
    for name, number in found.items():
        sides, word = (versions.ours, versions.theirs), b"".join(_WORD.findall(name)[:1])
        if any(repeated(side, within=word)[name] >= number for side in sides):
            continue
        shown = name.decode(errors="replace")
        done = [c.chunk for c in merged.chunks if c.how in (How.MOVED, How.MERGED)]
        texts = {c: b"".join(versions.lines[1][c.new : c.new_end]) for c in done}
        guilty = [c for c, text in texts.items() if name in text] or done
        faults.update(dict.fromkeys(guilty, f"the result would have {shown!r} twice"))
    return faults


def _misencoded(versions: Versions, merged: Merge) -> dict[Chunk, str]:
    """Return the chunks with bytes that mean other letters in the encoding of theirs."""
    ours, theirs = (encoding_of(lines) for lines in versions.lines[1:])
    done = [c.chunk for c in merged.chunks if c.how in (How.MOVED, How.MERGED)]
    foreign = [c for c in done if not _changed(versions, c, 1).isascii()] if ours != theirs else []
    return dict.fromkeys(foreign, "upstream changed the file's encoding")


def _misawaited(versions: Versions, merged: Merge, file: _Landed) -> dict[Chunk, str]:
    """Return the merged chunks if a call is awaited, or not, as in none of the sides.

    One side may rename what is called, and the other one await it no more.
    """
    sides = versions.base, versions.ours, versions.theirs
    done = [c.chunk for c in merged.chunks if c.how is How.MERGED]
    if not done or len({len(_HANDED.findall(side.source)) for side in sides}) == 1:
        return {}
    known = {*_calls(versions.ours.raw), *_calls(versions.theirs.raw)}
    new = {made: call for made, call in _calls((file.made.root,)).items() if made not in known}
    names = sorted(name for (name, _), call in new.items() if not _is_right(file.made, call))
    reason = "one side changes whether `{}` is awaited, and the other one what is called"
    return dict.fromkeys(done, reason.format(names[0].decode(errors="replace"))) if names else {}


def _calls(nodes: Sequence[tree_sitter.Node]) -> dict[tuple[bytes, bool], tree_sitter.Node]:
    """Return each kind of call by what it calls, and whether it awaits or yields from it."""
    calls = [(n, n.parent) for n in raw_walk(nodes) if n.type == "call" and n.parent]
    return {(n.children[0].text or b"", o.type in ("await", "yield")): n for n, o in calls}


def _is_right(module: Module, call: tree_sitter.Node) -> bool:
    """Whether a call is awaited just if it calls a coroutine function of the package."""
    found = resolve_call(module, call)
    if found is None or found[0].is_class or found[0].decorators or call.parent is None:
        return False
    is_coroutine = found[0].node.children[0].type == "async"
    return call.parent.type != "yield" and is_coroutine == (call.parent.type == "await")


def _misplaced(versions: Versions, merged: Merge) -> dict[Chunk, str]:
    """Return the merged chunks if a text has values that a side gives to other placeholders.

    Both may correct the same mistake: one side the order of the values, the other one the text's.
    """
    done = [c.chunk for c in merged.chunks if c.how is How.MERGED]
    rivals = [c for c in versions.upstream if any(touches(c, one) for one in done)]
    pairs = [(c, 1) for c in done], [(c, 2) for c in rivals]
    if not any(PLACE.search(_changed(versions, *p)) for side in pairs for p in side):
        return {}
    known = texts_with_values(versions.ours) | texts_with_values(versions.theirs)
    given = {(places, told) for _, places, told in known}
    values = {told for _, told in given}
    orders = Counter(tuple(sorted(told)) for told in values)
    found = (
        (places, told) not in given or orders[tuple(sorted(told))] > 1
        for _, places, told in texts_with_values(parse(merged.data)) - known
        if told in values
    )
    reason = "one side changes the placeholders of a text, and the other one their values"
    return dict.fromkeys(done, reason) if any(found) else {}


def _changed(versions: Versions, chunk: Chunk, side: int) -> bytes:
    return b"".join(versions.lines[side][chunk.new : chunk.new_end])


def _unreachable(versions: Versions, merged: Merge, file: _Landed) -> dict[Chunk, str]:
    """Return the chunks if lines of the merge are behind a `return` as in none of the sides."""
    done = [c.chunk for c in merged.chunks if c.how in (How.MOVED, How.MERGED)]
    nodes = (n for rows in file.spans for n in inside(file.made.root, rows))
    new = _cut_off(nodes) if done else {}
    for side in (versions.ours, versions.theirs) if new else ():
        known = _cut_off(raw_walk(side.raw))
        new = {text: leaves for text, leaves in new.items() if text not in known}
    lines = {text.partition(b"\n")[0] for pair in new.items() for text in pair}
    texts = {c: _changed(versions, c, 1) for c in done} if new else {}
    guilty = [c for c, text in texts.items() if any(line in text for line in lines)]
    return dict.fromkeys(guilty or texts, "nothing reaches it: a `return` is above it now")


def _cut_off(nodes: Iterable[tree_sitter.Node]) -> dict[bytes, bytes]:
    """Return the statements that nothing reaches, near some nodes, and what leaves before them."""
    found: dict[bytes, bytes] = {}
    for node in nodes:
        if node.parent is not None and node.parent.type in ("block", "module"):
            near = [n for n in (_beside(node, -1), node, _beside(node, 1)) if n is not None]
            pairs = ((one, n) for one, n in pairwise(near) if one.type in _LEAVES)
            found |= {n.text or b"": one.text or b"" for one, n in pairs}
    return found


def _beside(node: tree_sitter.Node, way: int) -> tree_sitter.Node | None:
    """Return the statement before (-1) or behind (1) another one."""
    while True:
        beside = node.prev_named_sibling if way < 0 else node.next_named_sibling
        if beside is None or beside.type != "comment":
            return beside
        node = beside


def _misgiven(versions: Versions, merged: Merge, file: _Landed) -> dict[Chunk, str]:
    """Return the chunks that may give a call of theirs what that does not take."""
    done = [c.chunk for c in merged.chunks if c.how in (How.MOVED, How.MERGED)]
    faults = {}
    sides = file.ours, file.theirs
    for call in unproven_calls(sides, file.made, file.added) if done else ():
        words = {*_WORD.findall(call.text or b"")}
        name = (call.children[0].text or b"").decode(errors="replace")
        reason = f"upstream calls `{name}` there, which may not take what is added"
        guilty = [c for c in done if not words.isdisjoint(_words(versions, c)[1])]
        faults.update(dict.fromkeys(guilty or done, reason))
    return faults


def _unproven_imports(merged: Merge, file: _Landed) -> dict[Chunk, str]:
    """Return the merged chunks if the result imports what no side imports, unless it exists."""
    done = [c.chunk for c in merged.chunks if c.how is How.MERGED]
    sides = file.ours, file.theirs
    why = unproven_import(file.base, sides, file.made, file.spans) if done else None
    return dict.fromkeys(done, why) if why else {}


def _orphans(versions: Versions, merged: Merge, others: OtherFiles) -> dict[Chunk, str]:
    """Return the chunks that rename or remove what new lines of theirs use, here or elsewhere."""
    done = [c.chunk for c in merged.chunks if c.how in (How.MOVED, How.MERGED)]
    gone = {c: frozenset(_words(versions, c)[0]) for c in done}
    words = frozenset().union(*gone.values())
    sides = versions.theirs.raw[0], parse(merged.data).raw[0]
    taken = words & (bound(sides[0]) - bound(sides[1])) if words else frozenset()
    for word, path in ((n, path) for n in sorted(taken) for path in others.users(n)):
        reason = f"upstream begins to use `{word.decode()}` in {path}, and the patch takes it away"
        return {c: reason for c in done if word in gone[c]}
    for chunk in versions.upstream if words else ():
        rows = range(chunk.new, chunk.new_end)
        name = orphan(sides, rows, words, whole=not merged.conflicts)
        if name is not None:
            reason = f"upstream uses `{name.decode(errors='replace')}`, which the patch takes away"
            return {c: reason for c in done if name in gone[c]}
    return {}


def _outdated(versions: Versions, merged: Merge, file: _Landed) -> dict[Chunk, str]:
    """Return chunks that change what new lines of theirs use as it was: the nearest one of each."""
    known, faults = {c.reason for c in merged.conflicts}, {}
    done = [c.chunk for c in merged.chunks if c.how in (How.MOVED, How.MERGED)]
    words = {c: _words(versions, c)[0] | _changed_definitions(versions, c) for c in done}
    for rival in versions.upstream if done else ():
        lines = versions.lines[2][rival.new : rival.new_end]
        used = {*_WORD.findall(b"".join(lines))}
        guilty = [c for c in done if not used.isdisjoint(words[c])]
        rows = range(rival.new, rival.new_end)
        there = [shift(file.changes, n) for n in rows] if guilty else []
        use = Landing(
            file.base,
            file.theirs,
            file.made,
            file.made,
            file.home,
            lines=rows,
            rows=[n for n in there if n not in file.added],
            words=used,
            is_lost=bool,
        )
        found = outdated(use) if guilty else None
        reason = f"upstream's new lines use what the patch changes: {found}"
        if found is not None and reason not in known:
            faults[min(guilty, key=lambda c: abs(c.old - rival.old))] = reason
    return faults


def _changed_definitions(versions: Versions, chunk: Chunk) -> set[bytes]:
    lines = versions.lines[1][chunk.new : chunk.new_end]
    return {
        *_DEFINED.findall(b"".join(lines)),
        *owner_of_lines(versions.ours, chunk.new, chunk.new_end),
    } - {b"__init__"}


def _unfit_callers(merged: Merge, file: _Landed, others: OtherFiles) -> dict[Chunk, str]:
    """Return the chunks that change a function which upstream begins to call in another file."""
    done = [c.chunk for c in merged.chunks if c.how in (How.MOVED, How.MERGED)]
    changed = changed_definitions(done, file.base, file.ours) if not merged.conflicts else ()
    found = (unfit_caller(path, file.theirs, file.made, others) for path in sorted(changed))
    why = next(filter(None, found), None)
    return dict.fromkeys(done, why) if why else {}


def _words(versions: Versions, chunk: Chunk) -> tuple[set[bytes], set[bytes]]:
    """Return the words that a chunk takes away, and those that it adds."""
    old, new = versions.lines[0][chunk.old : chunk.old_end], versions.lines[1]
    sides = old, new[chunk.new : chunk.new_end]
    before, behind = ({*_WORD.findall(b"".join(side))} for side in sides)
    return before - behind, behind - before


class _Landed:
    """A file into which chunks went: the merged file, or one with a path into which they moved."""

    def __init__(
        self, versions: Versions, path: str, data: bytes, others: OtherFiles, *, strict: bool
    ) -> None:
        self.lines = split(data)
        made = parse(data)
        theirs, package = versions.theirs, others.package
        self.changes: Sequence[Chunk] = ()
        self.spans = [range(len(self.lines))]
        if path:
            theirs, package = made, others.package_of(path)
        else:
            self.changes = diff(versions.lines[2], self.lines)
            self.spans = [range(c.new, c.new_end) for c in self.changes]
        self.added = [n for rows in self.spans for n in rows]
        used = versions.lines[1] if strict else [self.lines[n] for n in self.added]
        self.words = frozenset(_WORD.findall(b"".join(used)))
        before = others.package if others.old_package is None else others.old_package
        self.base = Module(versions.base.raw[0], before, others.old)
        self.ours = Module(versions.ours.raw[0], before, others.old)
        self.home = Module(versions.theirs.raw[0], others.package, others.new)
        self.theirs = Module(theirs.raw[0], package, others.new)
        self.made = Module(made.raw[0], package, others.new)

    def rows(self, texts: Iterable[bytes]) -> frozenset[int]:
        """Return the lines that the merge added, and that a chunk has."""
        wanted = {line.strip() for line in texts} - {b""}
        return frozenset(n for n in self.added if self.lines[n].strip() in wanted)


def _fault(
    versions: Versions, merged: Merge, chunk: Chunk, file: _Landed, others: OtherFiles
) -> str | None:
    """Return what a chunk uses, and the file into which it went or its package does not have."""
    use = Landing(
        file.base,
        file.ours,
        file.theirs,
        file.made,
        file.home,
        lines=range(chunk.new, chunk.new_end),
        rows=file.rows(versions.lines[1][chunk.new : chunk.new_end]),
        words=file.words,
        is_lost=others.is_lost,
    )
    # That rule has looked up the names where its lines are, which upstream may have split off.
    is_named = any(c.chunk == chunk and "joined-names" in c.rules for c in merged.chunks)
    if is_named or not versions.upstream:
        return _misfit(use)
    return lost_name(use, whole=not merged.conflicts) or _misfit(use)


def _misfit(use: Landing) -> str | None:
    checks = (
        lost_import,
        misuse,
        misfit_in_class,
        field_behind_default,
        crossed_name,
        name_for_types,
    )
    return next((found for check in checks if (found := check(use))), None)


def misuse_of_file(data: bytes, others: OtherFiles) -> str | None:
    """Return what a file that ours adds uses, and theirs does not have."""
    root, nothing = parse(data).raw[0], parse(b"").raw[0]
    lines = range(data.count(b"\n") + 1)
    old, new = (Module(root, others.package, read) for read in (others.old, others.new))
    use = Landing(
        Module(nothing, others.package, others.old),
        old,
        Module(nothing, others.package, others.new),
        new,
        new,
        lines=lines,
        rows=lines,
        words=frozenset(_WORD.findall(data)),
        is_lost=others.is_lost,
    )
    return _misfit(use)
