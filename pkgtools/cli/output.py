"""Text on a terminal, which acts on nothing that others put into it."""

from __future__ import annotations

import re
from typing import Final

import click

_STYLE: Final = re.compile("(\x1b\\[(?:0|1|3[0-7])m)")
"""What click.style writes here; of others it does no more than colour a word."""


def say(text: str, *, err: bool = False) -> None:
    """Print lines, which may hold what an image, a file or a server says."""
    parts = _STYLE.split(text)
    parts[::2] = ("\n".join(map(plain, part.split("\n"))) for part in parts[::2])
    click.echo("".join(parts), err=err)  # noqa: TID251 - here it is made harmless


def plain(text: str) -> str:
    """Return text that must stay one line, with nothing that a terminal acts on.

    A character that is not printable is written as its number.
    """
    return "".join(c if c.isprintable() or c == "\t" else f"\\u{ord(c):04x}" for c in text)
