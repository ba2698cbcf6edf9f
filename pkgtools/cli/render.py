"""Refusals and identities as text, and errors in every format."""

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from pkgtools.cli.next_step import next_step, shell
from pkgtools.cli.output import plain, print_facts, say
from pkgtools.errors import PkgtoolsError, UsageError
from pkgtools.plan import Rejection
from pkgtools.tree.check import Refusal
from pkgtools.tree.state import Identity

_SHOWN_LINES: Final = 14
"""The most lines to show of the nearest place."""
_EXTRA: Final = re.compile(r"Got unexpected extra argument \((\S+)\)")
_FORMAT: Final = re.compile(r"(?<!\S)--format[ =](json|github|junit|sarif)(?!\S)")


def refuse_usage(error: click.UsageError, words: Sequence[str], top: click.Context) -> int:
    """Show click's usage error as the project's; return the exit code.

    The words are the whole command line: click could not parse the format that it asks for.
    """
    context = error.ctx or top
    remedy = f"`{context.command_path} --help`"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        option = [error.param.opts[0]] if isinstance(error.param, click.Option) else []
        missing = [error.param]
        if not option:  # required arguments after it are missing, too
            behind = itertools.dropwhile(lambda p: p is not error.param, context.command.params)
            missing = [p for p in behind if isinstance(p, click.Argument) and p.required]
        metavars = (param.make_metavar(context) for param in missing)
        remedy = f"`{shell(*words, *option)} {' '.join(metavars)}`"
    elif extra := _EXTRA.fullmatch(error.message):
        remedy = _with_option(extra[1], list(words), context.command) or remedy
    text = error.format_message().rstrip(".")
    message = f"{context.command_path}: {text[:1].lower()}{text[1:]}"
    named = context.command
    # A group has no `refusal`: see `common.Command`.
    refusal: PkgtoolsError = getattr(named, "refusal", UsageError)(message, remedy=remedy)
    show_refusal(refusal, _asked_format(words, named), context)
    return refusal.exit_code


def _with_option(value: str, words: list[str], named: click.Command) -> str | None:
    """Return the command line with an option for a value that stands without one."""
    kinds = {
        "--wheel": value.endswith(".whl") and Path(value).is_file(),
        "--tree": Path(value).is_dir(),
        "--target": not Path(value).exists(),
        "--series": not Path(value).exists(),
    }
    known = {name: param for param in named.params for name in param.opts}
    option = next((option for option, is_one in kinds.items() if is_one and option in known), None)
    if option is None or value not in words:
        return None
    if option in words and not getattr(known[option], "multiple", False):
        return None
    words.reverse()
    words.remove(value)
    return f"`{shell(*reversed(words), option, value)}`"


def _asked_format(words: Sequence[str], named: click.Command) -> str:
    options = list(itertools.takewhile(lambda word: word != "--", words))
    reports = any(param.name == "output_format" for param in named.params)
    asked = _FORMAT.findall(" ".join(options)) if reports else []
    return asked[-1] if asked else "json" if "--json" in options else "text"


def show_refusal(error: PkgtoolsError, kind: str, context: click.Context) -> None:
    """Print an error in a format."""
    if kind == "text":
        show_error(error)
    else:
        print_facts(error_facts(error), kind, context)


def show_error(error: PkgtoolsError) -> None:
    """Print an error for a person."""
    say(click.style(f"error: {error.message}", fg="red"), err=True)
    if isinstance(error.details, Refusal):
        say("\n".join(refusal_lines(error.details)), err=True)
    say(plain(f"  next: {next_step(error)}"), err=True)


def error_facts(error: PkgtoolsError) -> dict[str, object]:
    """Return an error as ``--json`` prints it."""
    facts = {
        "code": error.code,
        "exit_code": error.exit_code,
        "message": error.message,
        "remedy": next_step(error),
        "details": error.details,
    }
    return {"error": facts}


def refusal_lines(refusal: Refusal) -> Iterator[str]:
    """Yield why a source was refused, per file and hunk."""
    if refusal.nearest is not None and not refusal.nearest.is_known:
        yield from match_lines(refusal.nearest)
    for rejection in refusal.rejections:
        yield from _rejection_lines(rejection)


def match_lines(match: Identity) -> Iterator[str]:
    """Yield the nearest revision of an unknown source, and the files that differ."""
    yield f"  nearest: {match.target} ({match.revision}), {match.state}"
    for file in match.differing:
        ids = f"  {file.found[:12] or 'no file'}, not {file.before[:12] or 'no file'}"
        note = " (only its line endings differ)" if file.crlf else ""
        yield f"    {file.state:8} {file.path}{ids}{note}"


def _rejection_lines(rejection: Rejection) -> Iterator[str]:
    yield f"  {rejection.patch}:{rejection.patch_line}: {rejection.path}"
    yield f"    {rejection.message}"
    if rejection.absorbed is not None:
        yield f"    already there at line {rejection.absorbed} (absorbed)"
        return
    if rejection.nearest is not None:
        near = rejection.nearest
        yield f"    nearest: line {near.line}, {near.similarity:.0%} alike (- expected, + found)"
        lines = near.diff
    else:
        lines = tuple(f"  {line}" for line in rejection.expected)
    for line in lines[:_SHOWN_LINES]:
        yield f"      {line}"
    if len(lines) > _SHOWN_LINES:
        yield f"      ... {len(lines) - _SHOWN_LINES} more lines (--json has all)"
