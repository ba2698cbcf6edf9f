"""``pkgtools merge-file``."""

import os
import stat
from pathlib import Path
from typing import Final

import click

from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.output import say
from pkgtools.errors import PkgtoolsError
from pkgtools.merge.driver import is_python, merge_text
from pkgtools.merge.markers import Markers
from pkgtools.util.files import read_bytes, replacing

_FAILED: Final = 255
"""Git takes 1 to 127 as conflicts, and what is above 128 as an error."""


_NAMES: Final = ("%X", "%S", "%Y")
"""The placeholders of git for what ours, base and theirs are called."""


class NotMergedError(PkgtoolsError):
    """The files could not be merged: OURS is unchanged."""

    exit_code = _FAILED
    code = "not-merged"


@common.command("merge-file", refusal=NotMergedError)
@click.argument("base", type=common.PATH)
@click.argument("ours", type=common.PATH)
@click.argument("theirs", type=common.PATH)
@click.option(
    "-p", "--stdout", "show", is_flag=True, help="Print the result, and leave OURS unchanged."
)
@click.option("--diff3", is_flag=True, help="Show BASE in conflicts, too.")
@click.option(
    "-L",
    "labels",
    type=common.ANY_TEXT,
    multiple=True,
    metavar="LABEL",
    help="The labels of ours, base and theirs in conflicts, in this order.  "
    "[default: the names of the files]",
)
@click.option(
    "--marker-size", type=click.IntRange(1), default=7, help="The length of a conflict marker."
)
@click.option("--path", "name", metavar="NAME", help="The name of the merged file: git's %P.")
def merge_file(
    base: Path,
    ours: Path,
    theirs: Path,
    labels: tuple[str, ...],
    name: str | None,
    marker_size: int,
    *,
    show: bool,
    diff3: bool,
) -> Output:
    """Merge the changes from BASE to OURS and from BASE to THEIRS, and write the result to OURS.

    The files are in the order of a merge driver's %O, %A and %B; `git merge-file` takes OURS first.

    Python is merged by structure: a conflict of git's is merged if there is a single
    right way. Any other file is merged by lines, exactly as `git merge-file` does. A
    file is Python if its name (--path, otherwise OURS) ends with .py or .pyi, or if
    its first line runs Python.

    \b
    Exit codes: 0 merged, 1 with conflicts, 255 not merged.

    \b
    Examples:
      pkgtools merge-file -p base.py ours.py theirs.py
      pkgtools merge-file --diff3 -L ours -L base -L theirs base.py ours.py theirs.py
      git config merge.pkgtools.driver "pkgtools merge-file --marker-size %L --path %P %O %A %B"
    """
    if show and not common.is_text():
        raise NotMergedError(
            "-p and --json both print to stdout", remedy="leave one of them out, and run it again"
        )
    if len(labels) > 3:
        raise NotMergedError(
            "-L is given more than three times",
            remedy="give it for ours, base and theirs: `pkgtools merge-file --help`",
        )
    one, two, three = (_read(path) for path in (base, ours, theirs))
    names = ("ours", "base", "theirs") if name else (str(ours), str(base), str(theirs))
    # git before 2.44 passes the placeholders of these names as they are.
    known = [own if own not in _NAMES else std for own, std in zip(labels, names, strict=False)]
    ours_label, base_label, theirs_label = (*known, *names[len(labels) :])
    merged = merge_text(
        one,
        two,
        three,
        python=is_python(name or ours.name, two),
        markers=Markers(ours_label, base_label, theirs_label, size=marker_size, diff3=diff3),
    )
    if show:
        click.echo(merged.data, nl=False)  # noqa: TID251 - a program reads it
    elif merged.data != two:
        _write(ours, merged.data)
    for chunk in merged.chunks if common.is_text() else ():
        if chunk.reason:
            say(f"{name or ours}:{chunk.line}: conflict: {chunk.reason}", err=True)
    facts = {"conflicts": merged.conflicts, "chunks": merged.chunks}
    return Output(facts, exit_code=1 if merged.conflicts else 0)


def _read(path: Path) -> bytes:
    try:
        data = read_bytes(path)
    except OSError as error:
        raise NotMergedError(
            f"{path}: it cannot be read: {error.strerror}",
            remedy="name three files: `pkgtools merge-file BASE OURS THEIRS`",
        ) from None
    if b"\0" in data:
        raise NotMergedError(
            f"{path} is binary: binary files cannot be merged",
            remedy="keep OURS, or copy THEIRS over it",
        )
    return data


def _write(path: Path, data: bytes) -> None:
    """Replace the file, or the target of the link, and keep its mode."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        with replacing(path, "make its folder writable, or print the result with -p") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
    except (OSError, PkgtoolsError) as error:
        raise NotMergedError(f"{path}: it cannot be written: {error}") from None
