"""Code that all commands share: options, how they run, files that they write, progress."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pkgtools.catalog import find_catalog, load_catalog
from pkgtools.cli.output import print_facts, say
from pkgtools.errors import PkgtoolsError, TreeError, UsageError
from pkgtools.util.files import in_the_way, replacing

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from click.shell_completion import CompletionItem

_T = TypeVar("_T")
_FORMAT: Final = "pkgtools.format"


PATH: Final = click.Path(path_type=Path)
EXISTING_PATH: Final = click.Path(path_type=Path, exists=True)
ANY_TEXT: Final = click.types.StringParamType()
"""A text that can be empty; every other value is refused if it is."""


class TargetName(click.ParamType[str]):
    """A target or alias, completed from the catalog; with `sets`, also a set of targets."""

    name = "target"

    def __init__(self, *, sets: bool = False) -> None:
        self._sets = sets

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that start with what was typed."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - when completing

        try:
            catalog = load_catalog(ctx.params.get("catalog") or find_catalog(Path.cwd()))
        except PkgtoolsError:
            return []
        names = [n for t in catalog.targets for n in (t.name, *(a.name for a in t.aliases))]
        names += [each.name for each in catalog.sets] if self._sets else []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def count(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"


target_option = click.option("-t", "--target", type=TargetName(), help="A target or an alias.")
targets_option = click.option(
    "-t",
    "--target",
    "targets",
    type=TargetName(sets=True),
    multiple=True,
    help="A target, an alias or a set of targets; can be repeated.",
)
tree_option = functools.partial(
    click.option,
    "--tree",
    type=PATH,
    help="A source checkout, a site-packages folder or the package's own folder.  "
    "[default: the package that --python would import]",
)
python_option = functools.partial(
    click.option,
    "--python",
    help="The interpreter that imports the package.  [default: the one running pkgtools; if "
    "pipx or uv tool installed it, the active environment's]",
)


def tree_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --tree and --python, which exclude each other."""
    return tree_option(callback=only_tree)(python_option(callback=only_tree)(function))


def only_tree(ctx: click.Context, _param: click.Parameter, value: _T) -> _T:
    """Refuse --tree with --python, whichever comes second."""
    if value is not None and any(ctx.params.get(name) for name in ("tree", "python")):
        ctx.fail("--tree and --python name different trees: give one")
    return value


def gathered(
    name: str, kind: type[DataclassInstance], *options: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options, and passes their values as one dataclass."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(**values: Any) -> Any:
            own = {field.name: values.pop(field.name) for field in fields(kind)}
            return function(**values, **{name: kind(**own)})

        return functools.reduce(lambda made, add: add(made), reversed(options), run)

    return decorate


image_tree_option = click.option(
    "--tree", help="The folder in the image that holds the package.  [default: where it is found]"
)
image_platform_option = click.option(
    "--platform", help="The platform of a multi-platform image, such as linux/arm64."
)
image_python_option = click.option(
    "--python",
    help="The interpreter in the image that imports the package.  [default: its python3]",
)
format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "github", "junit", "sarif"]),
    default="text",
    show_default=True,
    help="Text, JSON (as --json), GitHub annotations, or a JUnit or SARIF report.",
)


@dataclass(frozen=True)
class Output:
    """What a command prints: facts for a program, or lines for a person."""

    facts: object
    lines: Iterable[str] = ()
    exit_code: int = 0


class Command(click.Command):
    """A command that refuses an empty value, and a single-valued option given twice.

    An unset shell variable must not mean the current folder, and click takes the last of two.
    """

    refusal: type[PkgtoolsError] = UsageError
    """The error for a command line that cannot be parsed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments of a command line."""
        try:
            values, _, given = self.make_parser(ctx).parse_args(args.copy())
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click's parser leaves it out
            raise
        # Completion must not raise, and --help comes before any refusal.
        if not ctx.resilient_parsing and self.get_help_option(ctx) not in given:
            for param in self.params:
                many = not isinstance(param, click.Option) or param.multiple or param.is_flag
                if given.count(param) > 1 and not many:
                    ctx.fail(f"{param.opts[-1]} is given twice")
                value = values.get(param.name or "")
                texts = value if isinstance(value, list | tuple) else [value]
                if "" in texts and param.type is not ANY_TEXT:
                    raise click.BadParameter("it is empty", ctx, param)
        return super().parse_args(ctx, args)


def _catalog_path(_ctx: click.Context, _param: click.Parameter, value: Path | None) -> Path:
    if value is not None and value.is_dir():
        return value / "targets.toml"
    return value or find_catalog(Path.cwd())


_CATALOG: Final = click.Option(
    ["--catalog"],
    type=PATH,
    callback=_catalog_path,
    is_eager=True,
    envvar="PKGTOOLS_CATALOG",
    help="The targets.toml to use, or its folder.  [default: PKGTOOLS_CATALOG, else the one in "
    "this folder or above, else the packaged]",
)
_JSON: Final = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")


def command(
    name: str | None = None,
    *,
    group: click.Group | None = None,
    refusal: type[PkgtoolsError] = UsageError,
    short_help: str | None = None,
) -> Callable[[Callable[..., Output]], Command]:
    """Make a command of a function; it prints its output or its error, and exits with the code.

    Every command has --json. A parameter `catalog` is the `Catalog` that --catalog names. Where
    options can contradict each other, a parameter `catalog_path` is its file instead, to load
    after they were checked: usage errors come first. `refusal` is the error for a command line
    that cannot be parsed.
    """

    def decorate(function: Callable[..., Output]) -> Command:
        @functools.wraps(function)
        def run(as_json: bool, output_format: str = "text", **options: Any) -> None:
            kind = "json" if as_json and output_format == "text" else output_format
            raise SystemExit(_run(function, kind, options))

        made = click.command(name, cls=Command, short_help=short_help)(run)
        made.refusal = refusal
        made.params += [_CATALOG, _JSON] if _catalog_parameter(function) else [_JSON]
        if group is not None:
            group.add_command(made)
        return made

    return decorate


def _catalog_parameter(function: Callable[..., Output]) -> str | None:
    names = inspect.signature(function).parameters
    return next((name for name in ("catalog", "catalog_path") if name in names), None)


def _run(function: Callable[..., Output], kind: str, options: dict[str, Any]) -> int:
    context = click.get_current_context()
    context.meta[_FORMAT] = kind
    try:
        if name := _catalog_parameter(function):
            path = options.pop("catalog")
            options[name] = load_catalog(path) if name == "catalog" else path
        done = function(**options)
        if kind == "text":
            show(done.lines)
        else:
            print_facts(done.facts, kind, context)
    except PkgtoolsError as error:
        refusal = error
    except BrokenPipeError:  # the reader of the output is gone: click exits quietly
        raise
    except OSError as error:
        refusal = TreeError.of(error)
    else:
        return done.exit_code
    from pkgtools.cli.render import show_error, show_refusal  # noqa: PLC0415 - only when refused

    try:
        show_refusal(refusal, kind, context)
    except BrokenPipeError:
        raise
    except OSError:  # stdout is on a full disk, which may be the refusal itself
        show_error(refusal)
    return refusal.exit_code


def is_text() -> bool:
    """Whether this command prints text for a person."""
    return bool(click.get_current_context().meta[_FORMAT] == "text")


def show(lines: Iterable[str]) -> None:
    """Print lines for a person at once: more work follows."""
    if is_text():
        for line in lines:
            say(line)


def check_output(path: Path, remedy: str = "name another file") -> None:
    """Create the folder of an output file and check that it can be written, before long work."""
    folder = Path(os.path.realpath(path)).parent  # as `replacing`: a link stays
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = in_the_way(path)
        if reason is None and not os.access(folder, os.W_OK):
            reason = f"{folder} is not writable"
    except OSError as error:
        reason = error.strerror
    if reason is not None:
        raise TreeError(f"{path} cannot be written: {reason}", remedy=remedy)


def write_file(path: Path, data: bytes) -> None:
    """Write an output file that the user named."""
    with replacing(path, "name another file") as file:
        file.write(data)


def short(revisions: Sequence[str]) -> str:
    """Return revisions with abbreviated commits."""
    return " or ".join(revision[:12] for revision in revisions)


def release_note(target: str, revisions: Sequence[str], version: str | None) -> Iterator[str]:
    """Yield what to say of a package whose version is that of another release."""
    if version is not None:
        yield (
            f"  note: the package is release {version}, and {target} is for {short(revisions)}: "
            "only the files that the series touches are the same"
        )


class Progress:
    """Shows long work on stderr, with a spinner on a terminal."""

    @contextlib.contextmanager
    def task(self, text: str) -> Iterator[None]:
        """Show `text` while the work lasts."""
        if sys.stderr is None or not sys.stderr.isatty():  # None: closed by the parent
            say(f"{text} ...", err=True)
            yield
            return
        from rich.console import Console  # noqa: PLC0415 - slow to import
        from rich.progress import Progress as Bar  # noqa: PLC0415
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        name = TextColumn("{task.description}", markup=False)  # folder names may have brackets
        columns = SpinnerColumn(), name, TimeElapsedColumn()
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            bar.add_task(text, total=None)
            yield
