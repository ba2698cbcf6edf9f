"""Calls of which one side changes what is called, and the other one the call.

Example: the patch gives a function one more parameter, and passes it in every call. Upstream adds
a call, which lacks it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import tree_sitter

from pkgtools.merge.checks.landing import WORD, LandedFile, nodes_on
from pkgtools.merge.checks.signatures import Signature, misfit, result_of, signature_of
from pkgtools.merge.lines import Chunk
from pkgtools.merge.syntax.blocks import parse
from pkgtools.merge.syntax.modules import Definition, Module
from pkgtools.merge.syntax.names import (
    binds,
    class_around,
    definition_at,
    inside,
    last_name,
    name_of,
    owners,
    qualified_name,
)
from pkgtools.merge.syntax.tokens import (
    DEFINITIONS,
    arguments,
    field_text,
    identifiers,
    raw_walk,
    text_of,
)

_HANDED: Final = re.compile(rb"\b(?:await|yield) ")


def called(call: tree_sitter.Node) -> bytes:
    """Return what a call calls, as it names it."""
    return field_text(call, "function")


def resolve_call(module: Module, call: tree_sitter.Node) -> tuple[Definition, bool] | None:
    """Return what a call calls, and whether as a method of ``self``."""
    name, path = called(call), owners(call)
    first, _, attribute = name.partition(b".")
    if name.startswith((b"self.", b"cls.", b"super().")):
        scope = class_around(module.root, path)
        if scope is None or b"." in attribute:
            return None
        around = Definition(scope, module)
        method = (around.inherited if first == b"super()" else around.method)(attribute)
        return (method, True) if method else None
    if not name.replace(b".", b"").replace(b"_", b"").isalnum():
        return None
    functions = (n for n in reversed(path) if n.type == "function_definition")
    local = next((n for n in functions if binds(n, first)), None)
    if local is not None:
        found = Module(local, module.package, module.read).resolve(name)
        return (found, False) if found else None
    owner, _, last = name.rpartition(b".")
    of = module.resolve(owner) if owner else None
    is_method = of is not None and of.is_class
    found = of.method(last) if of is not None and is_method else module.resolve(name)
    return (found, is_method and found.is_marked(b"classmethod")) if found else None


def fits(module: Module, call: tree_sitter.Node) -> bool:
    """Whether a call is known to fit what it calls."""
    found = resolve_call(module, call)
    signature = signature_of(found[0], bound=found[1]) if found else None
    return signature is not None and misfit(call, signature) is None


def misawaited(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks carried by a rule if a call is awaited, or not, as in none of the sides.

    One side may rename what is called, and the other one await it no more.
    """
    versions = file.versions
    changes = [*((c, 1) for c in file.done), *((c, 2) for c in versions.upstream)]
    if not file.by_rule or not any(_hands_over(file, *change) for change in changes):
        return {}
    added = _calls(nodes_on(file.made.root, file.added))
    sides = (versions.ours, versions.theirs) if added else ()
    known = {call for side in sides for call in _calls(raw_walk(side.raw))}
    new = {made: call for made, call in added.items() if made not in known}
    names = sorted(name for (name, _), call in new.items() if not _is_right(file.made, call))
    if not names:
        return {}
    reason = "one side changes whether `{}` is awaited, and the other one what is called"
    return dict.fromkeys(file.by_rule, reason.format(names[0].decode(errors="replace")))


def _hands_over(file: LandedFile, chunk: Chunk, side: int) -> bool:
    """Whether a chunk changes lines so that they await or yield more, or less."""
    old = file.text(chunk, 0)
    return bool(old) and len(_HANDED.findall(old)) != len(_HANDED.findall(file.text(chunk, side)))


def _calls(nodes: Iterable[tree_sitter.Node]) -> dict[tuple[bytes, bool], tree_sitter.Node]:
    """Return each kind of call by what it calls, and whether it awaits or yields from it."""
    calls = [(n, n.parent) for n in nodes if n.type == "call" and n.parent]
    return {(text_of(n.children[0]), o.type in ("await", "yield")): n for n, o in calls}


def _is_right(module: Module, call: tree_sitter.Node) -> bool:
    """Whether a call is awaited just if it calls a coroutine function of the package."""
    found = resolve_call(module, call)
    if found is None or found[0].is_class or found[0].decorators or call.parent is None:
        return False
    is_coroutine = found[0].node.children[0].type == "async"
    return call.parent.type != "yield" and is_coroutine == (call.parent.type == "await")


def misgiven(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks that may give a call of theirs what that does not take."""
    faults = {}
    for call in _unproven(file) if file.done else ():
        words = {*WORD.findall(text_of(call))}
        name = text_of(call.children[0]).decode(errors="replace")
        reason = f"upstream calls `{name}` there, which may not take what is added"
        guilty = [c for c in file.done if not words.isdisjoint(file.changed_words[c][1])]
        faults.update(dict.fromkeys(guilty or file.done, reason))
    return faults


def _unproven(file: LandedFile) -> Iterator[tree_sitter.Node]:
    """Yield calls of a result where one side changes what is called, the other what is given.

    Calls that are known to fit are left out.
    """
    sides = file.ours.root, file.theirs.root
    ours, theirs = (text_of(root) for root in sides)
    for call in nodes_on(file.made.root, file.added):
        # With all arguments of ours, the function has just another name.
        if call.type != "call" or field_text(call, "arguments") in ours:
            continue
        mine, known = (_calls_of(called(call), root) for root in sides)
        is_new = text_of(call) not in theirs and not mine
        is_new = is_new and all(_kinds(n) != _kinds(call) for n in known)
        if known and is_new and not fits(file.made, call):
            yield call


def _calls_of(
    name: bytes, root: tree_sitter.Node, *, is_method: bool = False
) -> list[tree_sitter.Node]:
    """Return the calls of what has a name, which may be dotted, or of any object's method."""
    found = identifiers(root, name.rpartition(b".")[2])
    outer = (n.parent if n.parent and n.parent.type == "attribute" else n for n in found)
    named = (n for n in outer if (last_name(n) if is_method else n.text) == name)
    return [n.parent for n in named if n.parent and n.parent.type == "call"]


def _kinds(call: tree_sitter.Node) -> Counter[bytes]:
    """Return the keywords and stars of a call's arguments; of other values, how many."""
    return Counter(
        name_of(n) or (text_of(n) if n.type.endswith("splat") else b"") for n in arguments(call)
    )


def unfit_callers(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks that change a function which upstream begins to call in another file."""
    changed = () if file.merged.conflicts else sorted(_changed_definitions(file))
    why = next(filter(None, (_unfit_caller(file, path) for path in changed)), None)
    return dict.fromkeys(file.done, why) if why else {}


def _changed_definitions(file: LandedFile) -> set[tuple[bytes, ...]]:
    """Return the definitions that the chunks let take or give something else."""
    paths: set[tuple[bytes, ...]] = set()
    for c in file.done:
        for module, lines in (
            (file.base, c.old_lines),
            (file.ours, c.new_lines),
        ):
            nodes = inside(module.root, lines)
            first = next((n for n in nodes if not n.child_count), None)
            starts = [n for n in nodes if n.type in DEFINITIONS]
            for around in [*([owners(first)] if first else []), *((*owners(n), n) for n in starts)]:
                names = qualified_name(around)
                paths |= {names[:end] for end in range(1, len(names) + 1)}
    return {path for path in paths if _facts(file.base, path) != _facts(file.ours, path)}


def _facts(module: Module, path: tuple[bytes, ...]) -> object:
    """Return what a call of a definition takes and gives."""
    found = definition_at(module.root, path)
    if found is None:
        return None
    one = Definition(found, module)
    return signature_of(one, bound=len(path) > 1), None if one.is_class else result_of(one.node)


def _unfit_caller(file: LandedFile, path: tuple[bytes, ...]) -> str | None:
    """Return the file in which upstream begins to call a function that takes no such call now."""
    name, is_method = path[-1], len(path) > 1
    if len(path) > 2 or (is_method and name.startswith(b"__")):
        return None
    before, behind = (_signature(module, path) for module in (file.theirs, file.made))
    is_gone = is_method and definition_at(file.made.root, path) is None
    if not before or not (is_gone or (behind and behind.refuses_more_than(before))):
        return None
    for dotted in (file.others.callers if is_method else file.others.users)(name):
        old, new = (read(dotted) or b"" for read in (file.others.old, file.others.new))
        for call in _calls_of(name, parse(new).raw[0], is_method=is_method):
            if (is_method and (call.text or b"") in old) or misfit(call, before):
                continue
            why = misfit(call, behind, before) if behind else "the patch takes it away"
            if why:
                return f"upstream begins to call `{name.decode()}` in {dotted}: {why}"
    return None


def _signature(module: Module, path: tuple[bytes, ...]) -> Signature | None:
    """Return what a function of a module, or a method of a class of it, takes."""
    if len(path) == 1:
        one = module.resolve(path[0])
    else:
        scope = definition_at(module.root, path[:1])
        around = Definition(scope, module) if scope is not None else None
        one = around.own_method(path[1]) if around is not None and around.is_class else None
    return signature_of(one, bound=len(path) > 1) if one is not None else None
