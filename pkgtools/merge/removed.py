"""A file that upstream removed, whose definitions are in other files now."""

from pkgtools.merge.model import Merge, OtherFiles
from pkgtools.merge.result import Edit
from pkgtools.merge.rules.layout import apply_edits, line_end, line_start
from pkgtools.merge.syntax.blocks import parse
from pkgtools.merge.syntax.given import is_import
from pkgtools.merge.three_way import merge


def merge_removed(base: bytes, ours: bytes, others: OtherFiles) -> Merge | None:
    """Return a merge into the files to which the definitions went; None where none is found.

    What the patch does outside of definitions must be imports: these follow their uses.
    """
    rest = _without_definitions(base)
    if rest is None:
        return None
    merged = merge(base, ours, rest, python=True, others=others)
    left, made = (
        [n.text for n in parse(text).elements if not is_import(n)] for text in (rest, merged.data)
    )
    return merged if merged.others and left == made else None


def _without_definitions(source: bytes) -> bytes | None:
    """Return a file without its classes and functions, as if upstream had moved them all."""
    spans = [(n.start, n.end) for n in parse(source).elements if n.is_definition]
    edits = [Edit(source, line_start(source, a), line_end(source, b), b"") for a, b in spans]
    made = apply_edits(source, edits)
    return made if edits and isinstance(made, bytes) else None
