"""The command line: it parses and renders; the core does the work."""

import atexit
import contextlib
import gc
import importlib
import signal
import sys
from collections.abc import Iterator
from typing import Final

import click

from pkgtools import __version__

# Lazy imports keep --version and --help fast: each command's module loads when it runs.
_COMMANDS: Final = {
    "adopt": "Write a receipt for a tree that is already patched.",
    "apply": "Apply a target's series to a tree, exactly or not at all.",
    "build": "Build a patched wheel or container image.",
    "changelog": "Check that every changed series has an entry in CHANGELOG.md.",
    "checkout": "Make a git repository of a series, a commit for each patch.",
    "commit": "Write the commits of a checkout back into its series.",
    "drop": "Take patches out of a series.",
    "export": "Write a series as one flat diff.",
    "identify": "Name the known revision of a tree, wheel or commit.",
    "image": "Inspect a patched container image, or test it inside.",
    "import": "Make a series from patches or a flat diff.",
    "init": "Start a catalog for a package.",
    "lock": "Prove series on real sources and write their lockfiles.",
    "merge-file": "Merge three versions of a file, Python by structure.",
    "new": "Make a patch from edits of a tree.",
    "port": "Move a series to another revision of its upstream.",
    "recipe": "Check, render and validate a deployment of spec capture.",
    "recover": "Finish or undo a run that was killed.",
    "refresh": "Update a series from edits of a patched tree.",
    "rename": "Give a patch another file name.",
    "reorder": "Move patches within a series.",
    "report": "Write a page that shows every patch on every revision.",
    "reverse": "Restore the exact files from before a series.",
    "status": "Show what a tree is and what is applied to it.",
    "targets": "List the targets, their aliases, revisions and patches.",
    "upgrade": "Port the newest series to the newest release.",
    "verify": "Check that a series applies, or that a tree is patched.",
}
_MODULES: Final = {
    **dict.fromkeys(("drop", "rename", "reorder"), "arrange"),
    **dict.fromkeys(("apply", "recover", "reverse"), "tree"),
    **dict.fromkeys(("new", "refresh"), "edits"),
    "commit": "checkout",
}
"""The modules that do not have their command's name."""
_ALLOCATIONS: Final = 1_000_000
"""Objects between two looks for garbage."""


@contextlib.contextmanager
def _usage_errors(ctx: click.Context) -> Iterator[None]:
    """Show click's usage errors as the project's."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        from pkgtools.cli.render import refuse_usage  # noqa: PLC0415 - only then

        ctx.exit(refuse_usage(error, ctx.obj, ctx))


class _LazyGroup(click.Group):
    """A group that imports a command when it runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = tuple(args)
        with _usage_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        with _usage_errors(ctx):
            return super().invoke(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        name = {"import": "import_"}.get(cmd_name, cmd_name.replace("-", "_"))  # a keyword
        module = importlib.import_module(f"pkgtools.cli.{_MODULES.get(name, name)}")
        command = getattr(module, name)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above and the modules agree
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(
    cls=_LazyGroup,
    commands=[click.Command(name) for name in _COMMANDS],  # click lists and suggests their names
    epilog="Exit codes: 0 done, 2 usage, 3 does not apply, 4 partial, 5 foreign, 6 malformed, "
    "7 tree not writable or engine failed, 8 check failed.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="pkgtools")
def main() -> None:
    """Versioned patch series on Python packages, applied exactly or not at all.

    \b
    Examples:
      pkgtools targets
      pkgtools verify --dry-run
      pkgtools apply --target kimi-k3-ee560a2 --tree path/to/checkout
      pkgtools status
      pkgtools reverse
    """


def run() -> None:
    """Run the command line."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A signal's default action skips `finally`: containers and temporary folders would stay.
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _end)
    # A command is short, and its syntax trees are many objects that no cycle holds. Looking for
    # garbage takes a tenth of a port's time, and half a second more at the end of Python.
    gc.set_threshold(_ALLOCATIONS)
    atexit.register(gc.freeze)
    main(prog_name="pkgtools")


def _end(number: int, _frame: object) -> None:
    """Exit with a shell's code for the signal; context managers clean up first."""
    # https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_08_02
    sys.exit(128 + number)
