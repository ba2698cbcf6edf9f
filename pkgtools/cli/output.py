"""Output: text with control characters escaped, JSON, and reports.

Text from images, files and servers may hold escape sequences that change the terminal
(CWE-150, https://cwe.mitre.org/data/definitions/150.html).
"""

import json
import re
from pathlib import Path
from typing import Final

import click
import msgspec

from pkgtools.catalog import find_catalog

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


def to_json(facts: object) -> bytes:
    """Encode facts as JSON; bytes of a name that are not UTF-8 become U+FFFD."""
    try:
        raw = msgspec.json.encode(facts, enc_hook=str)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(facts, enc_hook=str), ensure_ascii=False)
        raw = text.encode(errors="surrogateescape").decode(errors="replace").encode()
    return msgspec.json.format(raw, indent=2) + b"\n"


def print_facts(facts: object, kind: str, context: click.Context) -> None:
    """Print facts as JSON, or as a report for continuous integration."""
    raw = to_json(facts)
    if kind == "json":
        click.echo(raw, nl=False)  # noqa: TID251 - a program reads it
        return
    from pkgtools.cli.findings import render  # noqa: PLC0415 - for continuous integration

    catalog = context.params.get("catalog") or find_catalog(Path.cwd())
    say(render(kind, context.command.name or "", raw, catalog).rstrip("\n"))
