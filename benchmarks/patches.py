"""How pkgtools reads a folder of patch files, beside git's reading of the same files.

    python benchmarks/patches.py path/to/patches [--list]

Each file below the folder that is a .patch, .diff or .mbox, or that a series file names, is
read as `pkgtools import` reads it, and by ``git mailsplit``, ``git mailinfo`` and ``git apply
--numstat``. Compared are the files that both name, with the lines added and removed in each.
Prints how many files are read, refused (by reason), and different from git's reading. No source
is needed, so nothing is applied.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pkgtools.errors import MalformedError
from pkgtools.patch import parse_patch, shown_level, split_mails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pkgtools.patch import FilePatch

Counts = Counter[tuple[str, str, str]]
"""How often a file is named, with the lines that are added and removed."""


@dataclass(frozen=True)
class Reading:
    """What a program finds in a patch file."""

    counts: Counts | None
    """None if it refuses the file."""
    level: int = 1
    reason: str = ""


def main() -> None:
    """Read every file and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", action="store_true", help="name each file that is not read alike")
    options = parser.parse_args()
    tally: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for path in _files(options.folder):
        data = path.read_bytes()
        ours = _by_pkgtools(data)
        theirs = _by_git(data, ours.level)
        verdict = _verdict(ours, theirs)
        tally[verdict] += 1
        if ours.counts is None:
            reasons[ours.reason] += 1
        if options.list and verdict != "read as git reads it":
            print(f"{verdict}: {path}: {ours.reason or theirs.reason}")
    for verdict, number in sorted(tally.items()):
        print(f"{number:6} {verdict}")
    for reason, number in reasons.most_common():
        print(f"{number:6}   refused: {reason}")


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        listing = path.parent / "series"
        is_listed = listing.is_file() and path.name in listing.read_text(errors="replace").split()
        if path.is_file() and (is_listed or path.suffix in (".patch", ".diff", ".mbox")):
            yield path


def _verdict(ours: Reading, theirs: Reading) -> str:
    if ours.counts is None:
        return "refused, git too" if theirs.counts is None else "refused, git reads it"
    if theirs.counts is None:
        return "read, git refuses it"
    return "read as git reads it" if ours.counts == theirs.counts else "DIFFERENT from git"


def _by_pkgtools(data: bytes) -> Reading:
    counts: Counts = Counter()
    number = 1
    try:
        for mail in split_mails(data):
            level = shown_level("patch", mail)
            patch = parse_patch("patch", mail, None if level is None else level.number)
            number = patch.level
            counts.update(_counts(file) for file in patch.files)
    except MalformedError as error:
        reason = re.sub(r"^patch(?: \(decoded\))?(?::\d+)?: ", "", error.message)
        return Reading(None, number, re.sub(r"'[^']*'|\d+", "N", reason))
    return Reading(counts, number)


def _counts(file: FilePatch) -> tuple[str, str, str]:
    if file.binary is not None:
        return file.new_path, "-", "-"
    tags = Counter(tag for hunk in file.hunks for tag, _ in hunk.lines)
    return file.new_path, str(tags[b"+"]), str(tags[b"-"])


def _by_git(data: bytes, level: int) -> Reading:
    counts: Counts = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for mail in _mails(data, Path(scratch)):
            patch = mail
            if mail.startswith(b"From ") or re.match(rb"[A-Za-z-]+: ", mail):
                _git(Path(scratch), mail, "mailinfo", "--quoted-cr=nowarn", "m", "p")
                patch = (Path(scratch) / "p").read_bytes()
            # Without this git would refuse what has no context, and what has changed since.
            command = ["apply", f"-p{level}", "--numstat", "-z", "--unidiff-zero", "--allow-empty"]
            try:
                said = _git(Path(scratch), patch, *command)
            except subprocess.CalledProcessError as error:
                return Reading(None, level, error.stderr.decode(errors="replace").strip())
            counts.update(_numstat(said))
    return Reading(counts, level)


def _mails(data: bytes, folder: Path) -> list[bytes]:
    if not data.startswith(b"From "):
        return [data.removeprefix(b"\xef\xbb\xbf")]
    try:
        _git(folder, data, "mailsplit", "--keep-cr", "-o.")
    except subprocess.CalledProcessError:  # a text that starts with the word
        return [data]
    return [path.read_bytes() for path in sorted(folder.glob("0*"))]


def _numstat(said: bytes) -> Iterator[tuple[str, str, str]]:
    for row in said.split(b"\0"):
        if row:
            added, removed, name = row.decode(errors="surrogateescape").split("\t", 2)
            yield name, added, removed


def _git(folder: Path, data: bytes, *arguments: str) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    made = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=environment,
        input=data,
        capture_output=True,
        check=True,
    )
    return made.stdout


if __name__ == "__main__":
    main()
