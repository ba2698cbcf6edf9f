"""Terminal output with control characters escaped.

Text from images, files and servers may hold escape sequences that change the terminal
(CWE-150, https://cwe.mitre.org/data/definitions/150.html).
"""

import re
from typing import Final

import click

_STYLE: Final = re.compile("(\x1b\\[(?:0|1|3[0-7])m)")
"""The sequences of click.style. In untrusted text they only colour the text of one call."""
_RESET: Final = "\x1b[0m"


def say(text: str, *, err: bool = False) -> None:
    """Print lines, which may have untrusted text."""
    parts = _STYLE.split(text)
    parts[::2] = ("\n".join(map(plain, part.split("\n"))) for part in parts[::2])
    if len(parts) > 1:
        parts.append(_RESET)
    click.echo("".join(parts), err=err)  # noqa: TID251 - escaped above


def note(text: str) -> None:
    """Print a note on stderr."""
    say(f"note: {text}", err=True)


def plain(text: str) -> str:
    """Return text on one line, with each character that is not printable as its code."""
    return "".join(c if c.isprintable() or c == "\t" else _number(c) for c in text)


def _number(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
