"""Check that the names in a patch's lines still exist after a merge.

Example: the patch calls ``helper()``, and upstream removes the function or its import.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

import tree_sitter

from pkgtools.merge.checks.landing import LandedLines
from pkgtools.merge.syntax.effects import imported_names
from pkgtools.merge.syntax.modules import Definition
from pkgtools.merge.syntax.names import (
    COMPREHENSIONS,
    IMPORTS,
    binds,
    bound,
    inside,
    is_bound_here,
    is_read,
    last_name,
    means,
    name_of,
    owners,
    reads,
    sets,
)
from pkgtools.merge.syntax.tokens import field_text, text_of

_BINDING: Final = ("assignment", "for_in_clause", "for_statement", "named_expression")
_COMMENT: Final = re.compile(rb"#.*")


def lost_name(use: LandedLines, *, whole: bool) -> str | None:
    """Return a name that lines of ours use and that is no longer defined.

    Args:
        use: the lines; a name without a meaning in ours is ignored.
        whole: whether all of ours is in what was made; otherwise what ours itself
            defines may be in a conflict.
    """
    base, ours, theirs, made = (m.root for m in (use.base, use.ours, use.theirs, use.made))
    found = [n for n in inside(ours, use.lines) if n.type == "identifier" and n.text in use.words]
    read = (n for n in found if is_read(n))
    for path, name in dict.fromkeys((owners(raw), text_of(raw)) for raw in read):
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
    for path, name in ((owners(n), text_of(n)) for n in there):
        if min(reads(n, path, name) for n in (base, ours)) > reads(made, path, name):
            return f"nothing uses `{name.decode()}` there any more"
    return None


def lost_import(use: LandedLines) -> str | None:
    """Return what some lines take from another module that does not have it any more."""
    checks = {
        "import_from_statement": _lost_from,
        "attribute": _lost_member,
        "identifier": _lost_star,
        "string": _lost_export,
    }
    nodes = (n for n in inside(use.ours.root, use.lines) if n.type in checks)
    return next((found for n in nodes if (found := checks[n.type](use, n))), None)


def _lost_from(use: LandedLines, raw: tree_sitter.Node) -> str | None:
    old, new = use.ours.absolute(raw), use.made.absolute(raw)
    before, behind = use.ours.read(old), use.made.read(new)
    if before is None:
        return None
    if behind is None:
        return f"there is no module {new} any more" if old == new else f"there is no module {new}"
    for name in raw.children_by_field_name("name"):
        plain = name_of(name) or text_of(name)
        word = re.compile(rb"\b" + re.escape(plain) + rb"\b")
        inner = (f"{dotted}.{plain.decode()}" for dotted in (old, new))
        is_module = use.ours.read(next(inner)) is not None and use.made.read(next(inner)) is None
        is_known = word.search(before) is not None or is_module
        is_lost = is_known and word.search(_COMMENT.sub(b"", behind)) is None
        is_offered = use.ours.offers(old, plain) is True
        is_lost = is_lost or (is_offered and use.made.offers(new, plain) is False)
        if plain in use.words and is_lost:
            return f"{new} has no {plain.decode()} any more"
    return None


def _lost_star(use: LandedLines, raw: tree_sitter.Node) -> str | None:
    """Return a name that ``import *`` of a module of the package does not give any more."""
    path, name = owners(raw), text_of(raw)
    if b"*" not in bound(use.ours.root) or name not in use.words or not is_read(raw):
        return None
    if any(means(module.root, path, name) for module in (use.ours, use.made)):
        return None
    is_lost = use.ours.starred(name) and use.made.starred(name) is False
    return f"no `import *` gives `{name.decode()}` any more" if is_lost else None


def _lost_member(use: LandedLines, raw: tree_sitter.Node) -> str | None:
    """Return that a module or class of which some lines use a member does not have it any more."""
    owner, member = field_text(raw, "object"), last_name(raw)
    if member not in use.words:
        return None
    is_local = any(binds(scope, owner) for scope in owners(raw))
    classes = [None if is_local else m.resolve(owner) for m in (use.ours, use.made)]
    if classes[0] and classes[1] and classes[0].is_class:
        return _lost_of_class(classes[0], classes[1], member)
    old, new = (module.dotted(owner) for module in (use.ours, use.made))
    if not old or not new or use.ours.read(old) is None or use.made.read(new) is None:
        return None
    if use.ours.offers(old, member) and use.made.offers(new, member) is False:
        return f"{new} has no {member.decode()} any more"
    return None


def _lost_of_class(old: Definition, new: Definition, member: bytes) -> str | None:
    shown = name_of(old.node).decode()
    if not new.is_class:
        return f"`{shown}` is a function now"
    is_lost = member in old.attributes() and member not in new.attributes()
    # Another base class may have it, in another package.
    is_known = set(new.base_names) <= {name for one in old.lineage() for name in one.base_names}
    return f"`{shown}` has no `{member.decode()}` any more" if is_lost and is_known else None


def _lost_export(use: LandedLines, raw: tree_sitter.Node) -> str | None:
    """Return a name in `__all__` that the module does not have any more."""
    if field_text(raw.parent and raw.parent.parent, "left") != b"__all__":
        return None
    name = text_of(raw).strip(b"\"'")
    is_lost = name in use.words and name in bound(use.ours.root)
    is_lost = is_lost and not bound(use.made.root) & {name, b"*"}
    return f"`{name.decode()}` is not defined there any more" if is_lost else None


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
    for raw in (n for n in inside(theirs, lines) if n.type == "identifier" and n.text in names):
        path, name = owners(raw), text_of(raw)
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
    while block.parent is not None and block.type not in ("block", *COMPREHENSIONS):
        block = block.parent
        holder = block if holder.type not in _BINDING else holder
    # A loop's or an assignment's value is computed before the name is bound.
    value = holder.child_by_field_name("right") or holder.child_by_field_name("value")
    is_own = block.type in COMPREHENSIONS
    return all(
        block.start_byte <= n.start_byte < block.end_byte
        and (is_own or first.start_byte <= n.start_byte)
        and not (value and value.start_byte <= n.start_byte < value.end_byte)
        for n in found
    )
