"""The line ``next:``, with commands that the user can run as they stand.

The core names a command and its target. This module adds the tree, interpreter, sources and
catalog that the user gave, to every command that takes them.
"""

import re
import shlex
from typing import Final

import click
from click.core import ParameterSource

from pkgtools.errors import PkgtoolsError

_REPEATED: Final = ("tree", "python", "wheels", "repositories", "catalog")
_PLACES: Final = ("tree", "python")
_TARGET: Final = re.compile(r"--target [A-Za-z0-9][\w.+-]*\w")
_COMMAND: Final = re.compile(
    r"`(pkgtools [^`]+)`|(?<![`\w/-])(pkgtools [a-z][^\s`,;()]*(?: [^\s`,;()]+)*)"
)
"""In backticks, or from the name to the end of the clause."""


def completed(text: str) -> str:
    """Return a remedy whose commands have the options that the user gave to this one.

    Where it names a target and no command, this command is meant, with that target.
    """
    if _COMMAND.search(text):
        return _COMMAND.sub(_quoted, text)
    return _TARGET.sub(lambda match: f"`{_again(match[0])}`", text)


def _again(target: str) -> str:
    """Return the command that the user gave, with another target."""
    context = click.get_current_context(silent=True)
    if context is None:
        return target
    known = {param.name or "" for param in context.command.params}
    if "series" in known and not known & {"target", "targets"}:
        target = target.replace("--target", "--series")
    others = known - {"target", "targets", "series", "as_json", "output_format"}
    verb = context.command_path.split()[1:]
    return shell(*verb, *target.split(), *given(*others))


def next_step(error: PkgtoolsError) -> str:
    """Return what to do about a refusal."""
    if error.remedy:
        return completed(error.remedy)
    context = click.get_current_context(silent=True)
    verb = context.command_path.partition(" ")[2] if context is not None else ""
    return " ".join(error.usual_remedy.replace("COMMAND", verb).split())


def next_line(text: str) -> str:
    """Return the line of a next step."""
    return f"  next: {completed(text)}"


def given(*names: str) -> list[str]:
    """Return arguments that the user gave to this command, for a suggested next command."""
    context = click.get_current_context()
    words: list[str] = []
    for param in context.command.params:
        name = param.name or ""
        if name in names and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = [param.opts[-1]] if isinstance(param, click.Option) else []
            value = context.params[name]
            values = value if isinstance(value, tuple) else (value,)
            words += option if value is True else [w for v in values for w in (*option, str(v))]
    return words


def shell(*words: str) -> str:
    """Return a pkgtools command line, quoted for a shell."""
    return shlex.join(["pkgtools", *words])


def _quoted(match: re.Match[str]) -> str:
    command = match[1] or match[2]
    context = click.get_current_context(silent=True)
    named = _command(context, command.split(" ")[1:]) if context is not None else None
    if context is None or named is None:
        return match[0]
    return f"`{_with_options(command, context, named)}`"


def _with_options(command: str, context: click.Context, named: click.Command) -> str:
    words = command.split(" ")
    options = {param.name: param for param in named.params if isinstance(param, click.Option)}
    if named is context.command and "--continue" in words and context.params.get("write"):
        command += " --write"
    for param in context.command.params:
        name = param.name or ""
        other = options.get(name)
        if name not in _REPEATED or other is None or not isinstance(param, click.Option):
            continue
        # An image's --tree and --python are others: each shared option has one help text.
        is_same = param.help == other.help
        is_chosen = (
            {"--tree", "--python"} & {*words} if name in _PLACES else {*param.opts} & {*words}
        )
        if is_same and not is_chosen and (own := given(name)):
            command += f" {shlex.join(own)}"
    return command


def _command(context: click.Context, words: list[str]) -> click.Command | None:
    found: click.Command | None = context.find_root().command
    for word in words:
        if not isinstance(found, click.Group):
            break
        found = found.get_command(context, word)
    return None if isinstance(found, click.Group) else found
