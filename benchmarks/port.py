"""What tools make of patches when upstream moves, judged by the ports that people made.

    python benchmarks/port.py steps.toml --wheels path/to/wheels --git path/to/upstream

``steps.toml`` names the steps; folders are relative to it ::

    [[step]]
    name = "slime 0.5.9"
    old = "0.5.9"            # a release, a wheel, a tree or a commit, as `pkgtools port` takes it
    new = "0.5.10.post1"
    patches = "slime/before" # the patches for the old source
    ported = "slime/after"   # what people made of them for the new one

A folder has one or more ``*.patch`` files, each for the source as it is; ``pkgtools export
--series v0.5.22 -o v0.5.22/series.patch`` makes one of a whole series.

Sections of other files than the package's are left out. For each tool the table has the hunks
that are left to a person; the files without a conflict, and how many of them equal the person's;
those with the person's change in another definition; those that do not compile; those with
names that are undefined in neither side (ruff F821). For pkgtools it has the proposals as well,
and how many of them are in the person's file; and of git's conflicts those in which no name is
lost, with the number of them that pkgtools leaves, too: where a name of the lines in conflict is
nowhere in the new file any more, a person has to decide. ``--show`` prints each difference.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pkgtools.authoring.applied import AppliedPatch, applied_on
from pkgtools.authoring.gitdiff import FileChange
from pkgtools.catalog import load_catalog
from pkgtools.cli.common import Progress
from pkgtools.merge.comparison import syntax_error
from pkgtools.merge.markers import accept_proposals, line_regions
from pkgtools.merge.syntax.blocks import parse
from pkgtools.merge.syntax.names import definitions
from pkgtools.patch import parse_patch
from pkgtools.port.model import ConflictedFile, HunkOutcome, StepReport
from pkgtools.port.route import Finder
from pkgtools.port.step import PortStep
from pkgtools.source.at_hand import Sources
from pkgtools.util.lines import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pkgtools.catalog import Upstream
    from pkgtools.source import Source

    Sides = tuple[bytes, bytes, bytes]
    Merge = Callable[[Sides], tuple[int, bytes]]

_HERE = b"\0the proposal\0\n"
_WORD = re.compile(
    rb"\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*|([^\W\d]\w*)"
)
"""Strings and comments, and the names between them."""
_COLUMNS = ("left", "files", "equal", "elsewhere", "broken", "undefined")


@dataclass
class Tally:
    """What one tool made of the patches."""

    left: int = 0
    """Hunks that a person has to look at."""
    files: int = 0
    """Files without a conflict that the person ported, too."""
    equal: int = 0
    elsewhere: int = 0
    broken: int = 0
    undefined: int = 0
    asked: int = 0
    """Conflicts in files that the person ported, too."""
    proposals: int = 0
    accepted: int = 0
    """Proposals that are in the person's file."""
    known: int = 0
    """Conflicts of git in which no name is lost."""
    known_left: int = 0
    """Those of them that are left here, too."""
    notes: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the tally of another step."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Case:
    """A file that the patches and people's port change."""

    path: str
    base: bytes
    ours: bytes
    theirs: bytes
    human: bytes | None
    """None where the person's port does not change the file."""


def main() -> None:
    """Print a table for each step, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", type=Path, help="a TOML file with the steps")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels")
    parser.add_argument("--git", type=Path, action="append", default=[], help="of the upstream")
    parser.add_argument("--catalog", type=Path, default=Path("targets.toml"))
    parser.add_argument("--only", default="", help="steps with this in their names")
    parser.add_argument("--show", action="store_true", help="print differences from the person's")
    options = parser.parse_args()
    catalog = load_catalog(options.catalog)
    wheels = sorted(options.wheels.glob("*.whl")) if options.wheels else []
    finder = Finder(catalog, catalog.upstreams[0], Progress(), Sources(wheels, options.git))
    total: dict[str, Tally] = {}
    for step in tomllib.loads(options.steps.read_text())["step"]:
        if options.only not in step["name"]:
            continue
        folders = [options.steps.parent / step[key] for key in ("patches", "ported")]
        sources = finder.find(step["old"]).source, finder.find(step["new"]).source
        tallies = _step(folders, sources, finder.upstream)
        _print(step["name"], tallies, show=options.show)
        for tool, tally in tallies.items():
            total.setdefault(tool, Tally()).add(tally)
    _print("all", total, show=False)


def _print(name: str, tallies: dict[str, Tally], *, show: bool) -> None:
    print(f"\n{name:36} " + " ".join(f"{column:>9}" for column in _COLUMNS))
    for tool, tally in tallies.items():
        row = " ".join(f"{getattr(tally, column):9}" for column in _COLUMNS)
        print(f"  {tool:34} {row}")
        if tally.proposals:
            print(
                f"  proposals: {tally.proposals} for {tally.asked} conflicts, "
                f"{tally.accepted} as the person has it"
            )
        if tally.known:
            print(
                f"  no name is lost in {tally.known} of git's, {tally.known_left} of them are left"
            )
        for note in tally.notes if show else ():
            print(note)


def _step(
    folders: list[Path], sources: tuple[Source, Source], upstream: Upstream
) -> dict[str, Tally]:
    patches, ported = (
        list(_applied(folder, source, upstream))
        for folder, source in zip(folders, sources, strict=True)
    )
    people = {c.path: c.after.data for patch in ported for c in patch.changes if c.after}
    tools: dict[str, Merge] = {
        "git merge-file": _merge_file,
        "patch -F2": _patch,
        "wiggle": _wiggle,
    }
    tallies = {tool: Tally() for tool in (*tools, "pkgtools")}
    for patch in patches:
        for change in patch.changes:
            case = _case(change, sources[1], people)
            if case is None:
                continue
            for tool, merge in tools.items():
                left, made = merge((case.base, case.ours, case.theirs))
                tallies[tool].left += left
                if not left:
                    _judge(case, made, tallies[tool])
    _port(patches, sources, upstream, people, tallies["pkgtools"])
    return tallies


def _applied(folder: Path, source: Source, upstream: Upstream) -> Iterator[AppliedPatch]:
    """Yield what the patches of a folder do to the package, each by itself."""
    inside = f"{upstream.prefix}{upstream.package}/".encode()
    for path in sorted(folder.glob("*.patch")):
        sections = re.split(rb"^(?=diff --git )", path.read_bytes(), flags=re.MULTILINE)
        kept = [s for s in sections if b" a/" + inside in s.partition(b"\n")[0]]
        if kept:
            yield from applied_on([parse_patch(str(path), b"".join(kept))], source)


def _case(change: FileChange, new: Source, people: dict[str, bytes]) -> Case | None:
    if change.before is None or change.after is None:
        return None
    theirs = new.read(change.old_path)
    human = people.get(change.path)
    return Case(
        change.path,
        change.before.data,
        change.after.data,
        theirs.data if theirs else b"",
        human if theirs else None,
    )


def _port(
    patches: list[AppliedPatch],
    sources: tuple[Source, Source],
    upstream: Upstream,
    people: dict[str, bytes],
    tally: Tally,
) -> None:
    start = time.perf_counter()
    step = PortStep(1, *sources, upstream, lambda _: None)
    ported, report = step.run(patches)
    print(f"{_hunks(report)} hunks, {time.perf_counter() - start:.1f} s")
    left = (HunkOutcome.CONFLICT, HunkOutcome.BLOCKED)
    for patch in report.patches:
        tally.left += len({(h.path, h.hunk) for h in patch.hunks if h.outcome in left})
    for conflict in step.conflicts:
        _judge_proposals(conflict, people.get(conflict.path), tally)
    waiting = {conflict.path for conflict in step.conflicts}
    asked = {c.path: {h.line for h in c.hunks} for c in step.conflicts}
    after = {c.path: c.after.data for patch in ported for c in patch.changes if c.after}
    for each in patches:
        for change in each.changes:
            case = _case(change, sources[1], people)
            if case is not None:
                _judge_questions(case, asked.get(change.path, set()), tally)
            if case is None or change.path in waiting:
                continue
            _judge(case, after.get(change.path, case.theirs), tally)


def _judge_proposals(conflict: ConflictedFile, human: bytes | None, tally: Tally) -> None:
    """Count the proposals of a file that stand in the person's, between the same two lines.

    The line beside a proposal can be of another conflict: it is what is proposed there.
    """
    if conflict.marked is None or human is None:
        return
    tally.asked += len({(h.sides.ours, h.sides.theirs) for h in conflict.hunks if h.sides})
    texts = {h.proposal.number: h.proposal.text for h in conflict.hunks if h.proposal}
    person = b"".join(_squeezed(human))
    for number, text in texts.items():
        head = b"||||||| proposal %d\n" % number
        marked = conflict.marked.data.replace(head + text.encode(), head + _HERE)
        before, _, after = accept_proposals(marked)[0].partition(_HERE)
        lines = _squeezed(before)[-1:] + _squeezed(text.encode()) + _squeezed(after)[:1]
        is_persons = b"".join(lines) in person
        tally.proposals += 1
        tally.accepted += is_persons
        if not is_persons:
            tally.notes += [f"  {conflict.path}: not the person's:", *text.splitlines()]


def _judge_questions(case: Case, asked: set[int | None], tally: Tally) -> None:
    """Count git's conflicts in which no name is lost, and those of them that are left.

    Args:
        case: the file.
        asked: the lines of base that are left; None for the whole file.
        tally: to count in.

    """
    base, ours = split(case.base), split(case.ours)
    lost = _names(case.base) - _names(case.theirs)
    for region in line_regions(case.base, case.ours, case.theirs):
        sides = (
            *base[region.base.start : region.base.stop],
            *ours[region.ours.start : region.ours.stop],
        )
        if region.is_conflict and lost.isdisjoint(_names(b"".join(sides))):
            tally.known += 1
            lines = {None, *(chunk.old + 1 for chunk in region.chunks)}
            tally.known_left += not lines.isdisjoint(asked)


def _names(data: bytes) -> set[bytes]:
    return {name for name in _WORD.findall(data) if name}


def _squeezed(data: bytes) -> list[bytes]:
    """Return the lines without indentation, and without the empty ones."""
    return [line.strip() + b"\n" for line in data.splitlines() if line.strip()]


def _hunks(report: StepReport) -> int:
    return sum(len({(h.path, h.hunk) for h in patch.hunks}) for patch in report.patches)


def _judge(case: Case, made: bytes, tally: Tally) -> None:
    """Count what is to be said of a file without conflicts."""
    if not case.path.endswith(".py"):
        return
    tally.broken += syntax_error(made) is not None
    lost = _undefined(made) - _undefined(case.ours) - _undefined(case.theirs)
    tally.undefined += bool(lost)
    notes = [f"    undefined: {', '.join(sorted(lost))}"] if lost else []
    if case.human is not None:
        tally.files += 1
        tally.equal += made == case.human
        if _is_elsewhere(case, made):
            tally.elsewhere += 1
            notes.append("    in another definition than the person's")
        if made != case.human:
            one, two = (data.decode().splitlines() for data in (case.human, made))
            notes += difflib.unified_diff(one, two, "the person's", "the tool's", lineterm="", n=2)
    if notes:
        tally.notes += [f"  {case.path}", *notes]


def _undefined(data: bytes) -> set[str]:
    """Return the names that ruff finds undefined."""
    command = ["ruff", "check", "--isolated", "--select=F821", "--output-format=concise", "-q", "-"]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    return set(re.findall(r"Undefined name `(\w+)`", done.stdout.decode()))


def _is_elsewhere(case: Case, made: bytes) -> bool:
    """Whether both ports make the change of the patch, and not in the same definitions."""
    assert case.human is not None
    versions = (case.base, case.ours, case.theirs, made, case.human)
    base, ours, theirs, result, human = map(parse, versions)
    wanted, by_person = Counter(ours.counted), Counter(human.counted)
    wanted.subtract(base.counted)
    by_person.subtract(theirs.counted)
    if {k: v for k, v in wanted.items() if v} != {k: v for k, v in by_person.items() if v}:
        return False  # the person changed the patch itself
    return definitions(result) != definitions(human) or (
        {n.key: n.counted for n in result.walk() if n.is_definition}
        != {n.key: n.counted for n in human.walk() if n.is_definition}
    )


# Other tools


def _merge_file(sides: Sides) -> tuple[int, bytes]:
    done = _run(["git", "merge-file", "-p", "ours", "base", "theirs"], sides)
    return done.returncode, done.stdout


def _wiggle(sides: Sides) -> tuple[int, bytes]:
    done = _run(["wiggle", "-m", "theirs", "base", "ours"], sides)
    return len(re.findall(rb"^<{7}", done.stdout, re.MULTILINE)), done.stdout


def _patch(sides: Sides) -> tuple[int, bytes]:
    """Merge with ``patch -F2``; a hunk that it takes for applied is a person's."""
    given = _run(["git", "diff", "--no-index", "base", "ours"], sides).stdout
    command = ["patch", "-F2", "--batch", "--forward", "-s", "-o", "made", "theirs"]
    done = _run(command, sides, given=given, wanted="made")
    output = done.stderr
    failed = re.search(rb"(\d+) out of \d+ hunks? (?:FAILED|ignored)", output)
    return int(failed[1]) if failed else 0, done.stdout


def _run(
    command: list[str], sides: Sides, *, given: bytes = b"", wanted: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a tool in a folder of the three versions; `wanted` is the file that it writes."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, data in zip(("base", "ours", "theirs"), sides, strict=True):
            Path(scratch, name).write_bytes(data)
        done = subprocess.run(command, cwd=scratch, input=given, capture_output=True, check=False)
        if wanted:
            path = Path(scratch, wanted)
            made = path.read_bytes() if path.exists() else b""
            done = subprocess.CompletedProcess(command, done.returncode, made, done.stdout)
    return done


if __name__ == "__main__":
    main()
