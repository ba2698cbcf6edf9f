"""How many hunks of real patch sets need a person when upstream moves, and what is left wrong.

    python benchmarks/port.py path/to/sets --wheels path/to/wheels

The folder holds one folder of patches for each release, with the version in its name
(``sglang_0_5_11``); what people made of a set for the next release is the next folder. For
each step it prints the hunks that a person has to look at under ``git apply``,
``patch -F2``, ``git merge-file`` and pkgtools, the files that end equal to the human port,
and automatic results that make the same change as the human port in another place.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from pkgtools.catalog import load_catalog
from pkgtools.errors import PkgtoolsError
from pkgtools.merge.blocks import parse
from pkgtools.merge.lines import diff, split
from pkgtools.merge.names import definitions
from pkgtools.patch import Kind, parse_patch
from pkgtools.port.model import AppliedPatch, FileChange, HunkOutcome, StepReport
from pkgtools.port.series import layers_on
from pkgtools.port.step import PortStep
from pkgtools.source import WheelSource

_VERSION = re.compile(r"(\d+)[._](\d+)[._](\d+)")


@dataclass
class Tally:
    """What became of the hunks and files of one step."""

    hunks: int = 0
    files: int = 0
    git_apply: int = 0
    patch: int = 0
    merge_file: int = 0
    ours: int = 0
    human: int = 0
    equal_git: int = 0
    equal_ours: int = 0
    elsewhere: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Tally) -> None:
        """Add another step."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def main() -> None:
    """Measure and print a row for each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", type=Path, help="a folder with one folder of patches a release")
    parser.add_argument("--wheels", type=Path, required=True, help="where the releases lie")
    parser.add_argument("--catalog", type=Path, default=Path("targets.toml"))
    options = parser.parse_args()
    upstream = load_catalog(options.catalog).upstreams[0]
    wheels = {
        source.version: source
        for path in sorted(options.wheels.glob(f"{upstream.distribution}-*.whl"))
        for source in [WheelSource(path, upstream)]
    }
    sets = sorted(
        (tuple(map(int, match.groups())), folder)
        for folder in options.sets.iterdir()
        if (match := _VERSION.search(folder.name))
    )
    print(
        f"{'step':18} {'hunks':>5}  {'git apply':>9} {'patch -F2':>9} {'merge-file':>10} "
        f"{'pkgtools':>8}  {'= human: git':>12} {'pkgtools':>8} {'of':>3} {'elsewhere':>9} {'s':>5}"
    )
    total = Tally()
    for (one, folder), (two, human) in pairwise(sets):
        names = [".".join(map(str, version)) for version in (one, two)]
        if not all(name in wheels for name in names):
            continue
        tally = _step(folder, human, wheels[names[0]], wheels[names[1]])
        _print(" > ".join(names), tally)
        total.add(tally)
    _print("all", total)
    for line in total.elsewhere:
        print(f"  elsewhere than the human port: {line}")


def _print(name: str, tally: Tally) -> None:
    print(
        f"{name:18} {tally.hunks:5}  {tally.git_apply:9} {tally.patch:9} {tally.merge_file:10} "
        f"{tally.ours:8}  {tally.equal_git:12} {tally.equal_ours:8} {tally.human:3} "
        f"{len(tally.elsewhere):9} {tally.seconds:5.1f}"
    )


def _layers(folder: Path, source: WheelSource) -> list[AppliedPatch]:
    """Return the patches of a folder that can be read and apply, each by itself."""
    layers = []
    for path in sorted(folder.glob("*.patch")):
        try:
            layers += layers_on([parse_patch(str(path), path.read_bytes())], source)
        except PkgtoolsError as error:
            print(f"  passed over: {path.name} of {folder.name}: {error.message}")
    return layers


def _step(folder: Path, human: Path, old: WheelSource, new: WheelSource) -> Tally:
    tally = Tally()
    layers = _layers(folder, old)
    wanted = {c.path: c for layer in _layers(human, new) for c in layer.changes}
    start = time.perf_counter()
    step = PortStep(1, old, new, old.upstream, lambda _: None)
    ported, report = step.run(layers)
    tally.seconds = time.perf_counter() - start
    _count_ours(report, tally)
    after = {c.path: c for layer in ported for c in layer.changes}
    waiting = {conflict.path for conflict in step.conflicts}
    for layer in layers:
        for change in layer.changes:
            if change.before is None or change.after is None:
                continue
            tally.files += 1
            merged = _by_git(change, new, tally)
            target = wanted.get(change.path)
            if target is None or target.after is None or target.before is None:
                continue
            tally.human += 1
            tally.equal_git += merged == target.after.data
            made = after.get(change.path)
            if made is None or made.after is None or change.path in waiting:
                continue
            tally.equal_ours += made.after.data == target.after.data
            if _is_elsewhere(change, made, target):
                tally.elsewhere.append(f"{change.path} ({new.version})")
    for layer in layers:
        _by_patch(layer, new, tally)
    return tally


def _count_ours(report: StepReport, tally: Tally) -> None:
    left = (HunkOutcome.CONFLICT, HunkOutcome.BLOCKED)
    for patch in report.patches:
        hunks = {(h.path, h.hunk) for h in patch.hunks}
        tally.hunks += len(hunks)
        tally.ours += len({(h.path, h.hunk) for h in patch.hunks if h.outcome in left})


def _by_git(change: FileChange, new: WheelSource, tally: Tally) -> bytes | None:
    """Merge with ``git merge-file``; return its result where it has no conflict."""
    assert change.before is not None
    assert change.after is not None
    theirs = new.read(change.old_path)
    if theirs is None:
        tally.merge_file += len(diff(split(change.before.data), split(change.after.data)))
        return None
    with tempfile.TemporaryDirectory() as scratch:
        sides = {"ours": change.after, "base": change.before, "theirs": theirs}
        for name, blob in sides.items():
            Path(scratch, name).write_bytes(blob.data)
        done = subprocess.run(
            ["git", "merge-file", "-p", *sides], cwd=scratch, capture_output=True, check=False
        )
    tally.merge_file += done.returncode
    return None if done.returncode else done.stdout


def _by_patch(layer: AppliedPatch, new: WheelSource, tally: Tally) -> None:
    """Count the hunks that ``git apply`` and ``patch`` with fuzz 2 reject."""
    commands = {
        "git_apply": ["git", "apply", "--reject", "-"],
        "patch": ["patch", "-p1", "-F2", "--batch", "--forward"],
    }
    for name, command in commands.items():
        with tempfile.TemporaryDirectory() as scratch:
            missing = 0
            for file in layer.patch.files:
                theirs = new.read(file.old_path)
                if theirs is None:
                    missing += len(file.hunks) if file.kind is Kind.MODIFY else 0
                    continue
                path = Path(scratch, file.old_path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(theirs.data)
            done = subprocess.run(
                command, cwd=scratch, input=layer.patch.data, capture_output=True, check=False
            )
        output = done.stdout + done.stderr
        rejected = len(re.findall(rb"^Rejected hunk #|^Hunk #\d+ FAILED", output, re.MULTILINE))
        setattr(tally, name, getattr(tally, name) + (missing or rejected))


def _is_elsewhere(change: FileChange, made: FileChange, human: FileChange) -> bool:
    """Whether both ports make the change of the patch, and not in the same definitions."""
    blobs = (change.before, change.after, made.before, made.after, human.before, human.after)
    if not change.path.endswith(".py") or any(blob is None for blob in blobs):
        return False
    base, ours, theirs, result, _, other = (parse(b.data) for b in blobs if b is not None)
    wanted = Counter(ours.counted)
    wanted.subtract(base.counted)
    by_human = Counter(other.counted)
    by_human.subtract(theirs.counted)
    if {k: v for k, v in wanted.items() if v} != {k: v for k, v in by_human.items() if v}:
        return False  # the human port changed the patch itself
    if definitions(result) != definitions(other):
        return True
    return {n.key: n.counted for n in result.walk() if n.is_definition} != {
        n.key: n.counted for n in other.walk() if n.is_definition
    }


if __name__ == "__main__":
    main()
