"""Check upstream's new lines against what the patch changes: the other direction of `uses`.

Example: the patch gives a function one more parameter, and passes it in every call. Upstream adds
a call, which lacks it.
"""

from collections.abc import Iterator, Sequence

import tree_sitter

from pkgtools.merge.blocks import parse
from pkgtools.merge.lines import Chunk
from pkgtools.merge.model import OtherFiles
from pkgtools.merge.modules import Definition, Module
from pkgtools.merge.names import inside, owners, qualified_name, scopes
from pkgtools.merge.signatures import misfit, result_of, signature_of
from pkgtools.merge.tokens import identifiers


def changed_definitions(
    chunks: Sequence[Chunk], base: Module, ours: Module
) -> set[tuple[bytes, ...]]:
    """Return the definitions that some chunks let take or give something else."""
    paths: set[tuple[bytes, ...]] = set()
    for chunk in chunks:
        spans = (base, range(chunk.old, chunk.old_end)), (ours, range(chunk.new, chunk.new_end))
        for module, lines in spans:
            nodes = inside(module.root, lines)
            first = next((n for n in nodes if not n.child_count), None)
            starts = [n for n in nodes if n.type in ("class_definition", "function_definition")]
            for around in [*([owners(first)] if first else []), *((*owners(n), n) for n in starts)]:
                names = qualified_name(around)
                paths |= {names[:end] for end in range(1, len(names) + 1)}
    return {path for path in paths if _facts(base, path) != _facts(ours, path)}


def _facts(module: Module, path: tuple[bytes, ...]) -> object:
    """Return what a call of a definition takes and gives."""
    found = scopes(module.root, path)
    if len(found) != len(path):
        return None
    one = Definition(found[-1], module)
    return signature_of(one, bound=len(path) > 1), None if one.is_class else result_of(one.node)


def unfit_caller(
    path: tuple[bytes, ...], theirs: Module, made: Module, others: OtherFiles
) -> str | None:
    """Return the file in which upstream begins to call a function that takes no such call now."""
    sides = [module.resolve(path[0]) for module in (theirs, made)] if len(path) == 1 else [None]
    told = [signature_of(one, bound=False) for one in sides if one is not None]
    if len(told) < len((theirs, made)):
        return None
    before, behind = told
    if not before or not behind or not behind.refuses_more_than(before):
        return None
    for dotted in others.users(path[0]):
        for call in _calls_of(path[0], parse(others.new(dotted) or b"").raw[0]):
            if not misfit(call, before) and (why := misfit(call, behind)):
                return f"upstream begins to call `{path[0].decode()}` in {dotted}: {why}"
    return None


def _calls_of(name: bytes, root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    for raw in identifiers(root, name):
        call = raw.parent
        if call is not None and call.type == "call" and call.child_by_field_name("function") == raw:
            yield call
