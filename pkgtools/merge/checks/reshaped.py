"""Lines of ours beside a value of which upstream makes another kind of value.

Example: the patch uses ``i`` in ``for i in rows:``, of which upstream makes
``for i in range(len(rows)):``.
"""

from typing import Final

import tree_sitter

from pkgtools.merge.checks.landing import LandedFile, LandedLines
from pkgtools.merge.lines import Chunk, touches
from pkgtools.merge.syntax.names import inside, is_read, last_name
from pkgtools.merge.syntax.tokens import ancestors, arguments, text_of, tokens_of

_FORMS: Final = {
    **{
        kind: kind for kind in ("dictionary", "list", "set", "string", "integer", "float", "lambda")
    },
    **dict.fromkeys(("tuple", "expression_list"), "tuple"),
    **dict.fromkeys(("comparison_operator", "not_operator", "true", "false"), "truth"),
    **{f"{kind}_comprehension": kind for kind in ("dictionary", "list", "set")},
}
"""Values of which the syntax tells the type; of the others, it can be the same."""
_SCALARS: Final = (None, "string", "integer", "float")
_MANY: Final = 2
_ITERATED: Final = {*(b"enumerate", b"items", b"keys", b"range", b"values", b"zip")}
"""What calls give to a loop that is not what they get."""


def other_value(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks carried by a rule that use a name to which upstream gives another value."""
    faults = {}
    for chunk in file.by_rule:
        nodes = inside(file.ours.root, chunk.new_lines)
        read = {text_of(n) for n in nodes if n.type == "identifier" and is_read(n)}
        for rival in (c for c in file.versions.upstream if touches(chunk, c)):
            old = _values(file.base.root, rival.old_lines)
            new = _values(file.theirs.root, rival.new_lines)
            for name in sorted(read & old.keys() & new.keys()):
                if _is_another(old[name], new[name]):
                    shown = name.decode(errors="replace")
                    faults[chunk] = f"upstream makes another kind of value of `{shown}`"
    return faults


def _values(root: tree_sitter.Node, rows: range) -> dict[bytes, tree_sitter.Node]:
    """Return the values that some lines give to names."""
    found = {}
    for node in inside(root, rows):
        target = node.child_by_field_name("left") or node.child_by_field_name("name")
        value = node.child_by_field_name("right") or node.child_by_field_name("value")
        is_value = node.type in ("assignment", "for_statement", "named_expression")
        if is_value and target is not None and value is not None and target.type == "identifier":
            found[text_of(target)] = value
    return found


def _is_another(old: tree_sitter.Node, new: tree_sitter.Node) -> bool:
    if new.parent is None or new.parent.type != "for_statement":
        if any(_is_part(*pair) for pair in ((old, new), (new, old))):
            return True
        forms = [_FORMS.get(node.type) for node in (old, new)]
        return forms[0] != forms[1] and not set(forms) <= {None, *_SCALARS}
    calls = [last_name(node.children[0]) if node.type == "call" else b"" for node in (old, new)]
    if calls[0] != calls[1] and not _ITERATED.isdisjoint(calls):
        return True
    is_wrapped = any(tokens_of(n) == tokens_of(old) for n in arguments(new))
    return bool(calls[0]) != bool(calls[1]) and not is_wrapped


def _is_part(one: tree_sitter.Node, other: tree_sitter.Node) -> bool:
    """Whether a value is an element or attribute of another one."""
    is_of = other.type in ("attribute", "subscript")
    return is_of and tokens_of(other.children[0]) == tokens_of(one)


def other_subject(use: LandedLines) -> str | None:
    """Return that a ``case`` of some lines is held against another value than in ours."""
    for pair in use.pairs("case_clause"):
        subjects = [_subject(case) for case in pair]
        if len({*map(tokens_of, subjects)}) > 1 and {n.type for n in subjects} != {"identifier"}:
            return "upstream's `match` is on another value now"
    return None


def _subject(case: tree_sitter.Node) -> tree_sitter.Node:
    """Return what the ``match`` around a case looks at."""
    match = next(n for n in ancestors(case) if n.type == "match_statement")
    return match.child_by_field_name("subject") or case


def other_siblings(use: LandedLines) -> str | None:
    """Return that upstream changes the kind of all values beside one that some lines add."""
    for node, twin in use.pairs("pair"):
        old, new = _forms(twin), _forms(node)
        form = old.pop(node.children[0].text)
        now = {new[key] for key in old.keys() & new.keys() if old[key] == form}
        is_alone = list(old.values()).count(form) < _MANY
        if form and len(now) == 1 and not is_alone and now.isdisjoint((form, None)):
            return f"upstream makes each {form} beside it a {now.pop()}"
    return None


def _forms(pair: tree_sitter.Node) -> dict[bytes | None, str | None]:
    """Return the kind of each value of the dictionary that has a pair, by its key."""
    pairs = (n for n in next(ancestors(pair)).named_children if n.type == "pair")
    return {n.children[0].text: _FORMS.get(n.children[-1].type) for n in pairs}
