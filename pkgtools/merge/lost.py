"""Check that the names in a patch's lines still exist after a merge."""

from collections.abc import Collection, Sequence
from typing import Final

import tree_sitter

from pkgtools.merge.effects import imported_names
from pkgtools.merge.names import (
    IMPORTS,
    inside,
    is_bound_here,
    is_read,
    means,
    owners,
    reads,
    sets,
)
from pkgtools.merge.uses import Landing

_BINDING: Final = ("assignment", "for_in_clause", "for_statement", "named_expression")
_OWN_SCOPES: Final = (
    *("dictionary_comprehension", "generator_expression", "lambda", "list_comprehension"),
    "set_comprehension",
)


def lost_name(use: Landing, *, whole: bool) -> str | None:
    """Return a name that lines of ours use and that has no meaning any more.

    Args:
        use: the lines; a name without a meaning in ours is ignored.
        whole: whether all of ours is in what was made; otherwise what ours itself
            defines may be in a conflict.
    """
    base, ours, theirs, made = (m.root for m in (use.base, use.ours, use.theirs, use.made))
    found = [n for n in inside(ours, use.lines) if n.type == "identifier" and n.text in use.words]
    read = (n for n in found if is_read(n))
    for path, name in dict.fromkeys((owners(raw), raw.text or b"") for raw in read):
        if not means(ours, path, name):
            continue
        was_there = means(base, path, name)
        if (whole or was_there) and not means(made, path, name):
            return f"`{name.decode()}` is not defined there any more"
        is_lost = was_there and not means(theirs, path, name)
        own = [n for n in found if n.text == name and owners(n) == path]
        if not is_lost or (sets(ours, use.lines, name) and _binds_first(own)):
            continue
        if not any(name in imported_names(n) for n in made.children if n.type in IMPORTS):
            return f"`{name.decode()}` is made of itself alone: upstream does not set it any more"
    there = (n for n in found if whole and is_bound_here(n))
    for path, name in ((owners(n), n.text or b"") for n in there):
        if min(reads(n, path, name) for n in (base, ours)) > reads(made, path, name):
            return f"nothing uses `{name.decode()}` there any more"
    return None


def orphan(
    sides: tuple[tree_sitter.Node, tree_sitter.Node],
    lines: range,
    names: Collection[bytes],
    *,
    whole: bool,
) -> bytes | None:
    """Return which of some names lines of theirs use, although ours took its meaning away.

    Where no conflict is left, nothing misses a name that the result does not have.

    Args:
        sides: theirs and the result.
        lines: the 0-based lines of theirs.
        names: the names.
        whole: whether no conflict is left.
    """
    theirs, made = sides
    there = (n for n in inside(theirs, lines) if n.type == "identifier" and n.text in names)
    for raw in there:
        path, name = owners(raw), raw.text or b""
        has_meaning = means(made, path, name)
        is_unset = is_read(raw) and means(theirs, path, name) and not has_meaning
        if is_unset and (not whole or reads(made, path, name)):
            return name
        is_set = is_bound_here(raw) and (has_meaning or not whole)
        if is_set and reads(theirs, path, name) and not reads(made, path, name):
            return name
    return None


def _binds_first(named: Sequence[tree_sitter.Node]) -> bool:
    """Whether some identifiers of one name in one scope read it only behind where they bind it."""
    found = [n for n in named if is_read(n) or is_bound_here(n)]
    first = next(filter(is_bound_here, found), None)
    if first is None:
        return not found
    holder = block = first
    while block.parent is not None and block.type not in ("block", *_OWN_SCOPES):
        block = block.parent
        holder = block if holder.type not in _BINDING else holder
    # A loop's or an assignment's value is computed before the name is bound.
    value = holder.child_by_field_name("right") or holder.child_by_field_name("value")
    is_own = block.type in _OWN_SCOPES
    return all(
        block.start_byte <= n.start_byte < block.end_byte
        and (is_own or first.start_byte <= n.start_byte)
        and not (value and value.start_byte <= n.start_byte < value.end_byte)
        for n in found
    )
