"""Texts with placeholders, and the values that go there.

Example: of ``"%s in %s" % (n, where)``, one side may turn the text around and the other one the
values. Both correct the same mistake, and together they make it again.
"""

import re
from collections import Counter
from typing import Final

from pkgtools.merge.checks.landing import LandedFile
from pkgtools.merge.lines import Chunk, touches
from pkgtools.merge.syntax.blocks import Block
from pkgtools.merge.syntax.tokens import raw_walk, text_of, tokens_of

_PLACE: Final = re.compile(rb"%(?:\(\w+\))?[-#+ .*\d]*[a-zA-Z]|\{[^{}]*\}")


def misplaced(file: LandedFile) -> dict[Chunk, str]:
    """Return the chunks carried by a rule if a text has values that a side gives to others."""
    done, versions = file.by_rule, file.versions
    rivals = [c for c in versions.upstream if any(touches(c, one) for one in done)]
    texts = [*map(file.text, done), *(file.text(c, 2) for c in rivals)]
    if not any(map(_PLACE.search, texts)):
        return {}
    known = _texts_with_values(versions.ours) | _texts_with_values(versions.theirs)
    given = {(places, told) for _, places, told in known}
    values = {told for _, told in given}
    orders = Counter(tuple(sorted(told)) for told in values)
    found = (
        (places, told) not in given or orders[tuple(sorted(told))] > 1
        for _, places, told in _texts_with_values(file.block) - known
        if told in values
    )
    reason = "one side changes the placeholders of a text, and the other one their values"
    return dict.fromkeys(done, reason) if any(found) else {}


def _texts_with_values(module: Block) -> set[tuple[bytes, tuple[bytes, ...], tuple[bytes, ...]]]:
    found = set()
    for raw in raw_walk(module.raw):
        text, *values = [n for n in raw.named_children if n.type != "comment"] or [raw]
        if raw.type == "call" and text.type == "attribute":
            text = text.children[0]  # "{}".format(value)
        elif raw.type not in ("argument_list", "binary_operator"):
            continue
        places = _PLACE.findall(text_of(text)) if "string" in text.type else []
        if places and values:
            told = tuple(token for value in values for token in tokens_of(value))
            found.add((text_of(text), tuple(places), told))
    return found
