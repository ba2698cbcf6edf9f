"""The texts of a module with placeholders, and the values that go there."""

import re
from typing import Final

from pkgtools.merge.blocks import Block
from pkgtools.merge.tokens import raw_walk, tokens_of

PLACE: Final = re.compile(rb"%(?:\(\w+\))?[-#+ .*\d]*[a-zA-Z]|\{[^{}]*\}")


def texts_with_values(module: Block) -> set[tuple[bytes, tuple[bytes, ...], tuple[bytes, ...]]]:
    """Return the texts of a module with their placeholders and values."""
    found = set()
    for raw in raw_walk(module.raw):
        text, *values = [n for n in raw.named_children if n.type != "comment"] or [raw]
        if raw.type == "call" and text.type == "attribute":
            text = text.children[0]  # "{}".format(value)
        elif raw.type not in ("argument_list", "binary_operator"):
            continue
        places = PLACE.findall(text.text or b"") if "string" in text.type else []
        if places and values:
            told = tuple(token for value in values for token in tokens_of(value))
            found.add((text.text or b"", tuple(places), told))
    return found
