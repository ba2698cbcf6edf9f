"""Check that theirs still has the attributes that the lines of ours use.

Example: the patch reads ``self.size``, of which upstream makes ``self.pool.size``.
"""

import difflib
import re
from collections.abc import Collection, Sequence

import tree_sitter

from pkgtools.merge.checks.landing import LandedLines, nodes_on
from pkgtools.merge.syntax.modules import Definition, Module
from pkgtools.merge.syntax.names import class_around, last_name, name_of, owners, sets
from pkgtools.merge.syntax.tokens import field_parts, field_text, text_of


def lost_attribute(use: LandedLines) -> str | None:
    """Return an attribute of ``self`` that neither the class nor its base classes have any more."""
    looked = set()
    for raw in use.attributes():
        path, name = owners(raw), last_name(raw)
        if field_text(raw, "object") != b"self" or (path, name) in looked:
            continue
        looked.add((path, name))
        before, behind = class_around(use.base.root, path), class_around(use.theirs.root, path)
        mine = class_around(use.ours.root, path)
        if mine is not None and before is not None and behind is None:
            is_known = name in Definition(mine, use.ours).attributes()
            found = _lost_where_it_landed(use, raw, name) if is_known else None
            if found:
                return found
        if mine is None or (before is None) != (behind is None):
            continue
        old = Definition(before or mine, use.ours).attributes() | _of_host(path, use.ours)
        new = Definition(behind or mine, use.made).attributes() | _of_host(path, use.made)
        if name in old - new and not sets(use.ours.root, use.lines, name):
            return f"`self.{name.decode()}` is not there any more{_instead(name, new - old)}"
    return None


def _lost_where_it_landed(use: LandedLines, raw: tree_sitter.Node, name: bytes) -> str | None:
    """Return that the class into which upstream moved a method does not have an attribute.

    The old class may inherit the method from there: then it has what the old class has.
    """
    landed = (n for n in nodes_on(use.made.root, use.rows) if n.text == raw.text)
    around = {class_around(use.made.root, owners(n)) for n in landed}
    scope = around.pop() if len(around) == 1 else None
    if scope is None:
        return None
    own, there = class_around(use.home.root, owners(raw)), Definition(scope, use.made)
    known = there.attributes()
    host = list(Definition(own, use.home).lineage()) if own is not None else []
    if any(name_of(one.node) == name_of(scope) for one in host):
        known = known.union(*(one.attributes() for one in host))
    read = re.compile(rb"\bself\.%b\b" % re.escape(name))
    lines = enumerate(text_of(scope).splitlines(), scope.start_point.row)
    is_read = any(read.search(line) for row, line in lines if row not in use.rows)
    is_whole = len(there.base_names) == len(list(there.lineage())) - 1
    if name in known or is_read or not is_whole:
        return None
    shown = name_of(scope).decode()
    return f"the method is in `{shown}` now, which has no `{name.decode()}`"


def _of_host(path: Sequence[tree_sitter.Node], module: Module) -> frozenset[bytes]:
    """Return the attributes of the class that a mixin's method names as the type of ``self``."""
    methods = [n for n in path if n.type == "function_definition"]
    firsts = [p for n in methods[:1] for p in field_parts(n, "parameters")[:1]]
    named = [name for p in firsts if (name := field_text(p, "type").strip(b"\"'"))]
    host = module.resolve(named[0]) if named else None
    return host.attributes() if host is not None and host.is_class else frozenset()


def undefined_attribute(use: LandedLines) -> str | None:
    """Return an attribute of any object that upstream took from the whole package."""
    theirs, looked = text_of(use.theirs.root), set()
    for raw in use.attributes():
        name = last_name(raw)
        if name in looked or _reads(theirs, b"", name):
            continue
        looked.add(name)
        if use.is_lost(name):
            return f"the package defines `{name.decode()}` nowhere any more"
    return None


def unread_attribute(use: LandedLines) -> str | None:
    """Return an attribute that upstream read from an object of that name, and reads nowhere now.

    An object of another name can still have it.
    """
    base, theirs = text_of(use.base.root), text_of(use.theirs.root)
    for raw in use.attributes():
        owner, _, name = text_of(raw).rpartition(b".")
        last = owner.rpartition(b".")[2]
        pair = last + b"." + name
        if not re.fullmatch(rb"\w+\.\w+", pair) or pair.startswith((b"self.", b"cls.")):
            continue
        if _reads(theirs, last, name) or not _reads(base, last, name):
            continue
        is_there = last + b"." in theirs
        if is_there and use.is_lost(pair) and not sets(use.ours.root, use.lines, name):
            return f"the package reads `{pair.decode()}` nowhere any more"
    return None


def attribute_of_a_part(use: LandedLines) -> str | None:
    """Return an attribute of an attribute that upstream reads from a part of it now."""
    base, theirs = text_of(use.base.root), text_of(use.theirs.root)
    for raw in use.attributes():
        owner, _, name = text_of(raw).rpartition(b".")
        is_there = owner + b"." in theirs and b"." + name in theirs
        if not is_there or not re.fullmatch(rb"\w+(?:\.\w+)+", owner):
            continue
        old, new = (
            re.compile(rb"(?<![\w.])%b\.%b%b\b" % (re.escape(owner), part, name))
            for part in (b"", rb"\w+\.")
        )
        found = new.search(theirs)
        is_new = found and old.search(base) and not old.search(theirs) and not new.search(base)
        if found and is_new and not sets(use.ours.root, use.lines, name):
            return f"upstream has `{found[0].decode()}` for `{owner.decode()}.{name.decode()}`"
    return None


def _reads(text: bytes, owner: bytes, name: bytes) -> bool:
    """Whether a text has an attribute; `owner` is the word before the point, or empty."""
    # The bytes are found much faster than the pattern, and most texts do not have them.
    if owner + b"." + name not in text:
        return False
    pattern = rb"%b\.%b\b" % (rb"\b%b" % owner if owner else b"", re.escape(name))
    return re.search(pattern, text) is not None


def _instead(name: bytes, new: Collection[bytes]) -> str:
    """Return what may have taken the place of a name."""
    words = [n.decode(errors="replace") for n in new]
    near = difflib.get_close_matches(name.decode(errors="replace"), words, n=2, cutoff=0.6)
    return f"; new there: {', '.join(f'`{n}`' for n in near)}" if near else ""
