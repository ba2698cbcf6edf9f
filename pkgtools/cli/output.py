"""Text on a terminal, which acts on nothing that others put into it."""

from __future__ import annotations

import re
from typing import Final

import click

_STYLE: Final = re.compile("(\x1b\\[(?:0|1|3[0-7])m)")
"""What click.style writes here; of others it does no more than colour the text of one call."""
_RESET: Final = "\x1b[0m"


def say(text: str, *, err: bool = False) -> None:
    """Print lines, which may hold what an image, a file or a server says."""
    parts = _STYLE.split(text)
    parts[::2] = ("\n".join(map(plain, part.split("\n"))) for part in parts[::2])
    if len(parts) > 1:
        parts.append(_RESET)
    click.echo("".join(parts), err=err)  # noqa: TID251 - here it is made harmless


def plain(text: str) -> str:
    """Return text that must stay one line, with nothing that a terminal acts on.

    A character that is not printable is written as its number.
    """
    return "".join(c if c.isprintable() or c == "\t" else _number(c) for c in text)


def _number(character: str) -> str:
    """Return a character as Python escapes it."""
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
