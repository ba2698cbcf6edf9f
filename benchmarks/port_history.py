"""Automatic merges held against a right answer that is known: upstream's own history.

    python benchmarks/port_history.py path/to/wheels 0.5.18 0.5.19 0.5.20 -n 40

One hunk between two releases is cut in two: its edits word by word, or its statements.
One half is the patch, the other half and all other hunks are upstream's change; the right
result is the newer release's file. Both halves must be Python. Prints how many cases
``git merge-file`` and pkgtools leave to a person, and each automatic result that is neither
the right file nor one that differs from it only in the order of what a port may order freely.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import random
import re
import subprocess
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pkgtools.catalog import load_catalog
from pkgtools.merge import OtherFiles, merge
from pkgtools.merge.lines import Chunk, diff
from pkgtools.merge.syntax.blocks import Shape, parse, starts_line
from pkgtools.source import WheelSource
from pkgtools.util.lines import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WORD = re.compile(rb"\w+|\s+|[^\w\s]")
_UNORDERED = (
    *("args", "body", "defaults", "elts", "finalbody", "handlers", "keys", "keywords"),
    *("kwonlyargs", "names", "orelse", "values"),
)


@dataclass(frozen=True)
class Case:
    """A patch and an upstream change that once were one hunk."""

    name: str
    kind: str
    base: bytes
    ours: bytes
    theirs: bytes
    right: bytes


def main() -> None:
    """Print the table, and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path, help="where the releases lie")
    parser.add_argument("releases", nargs="+", help="versions, in order")
    parser.add_argument("-n", "--number", type=int, default=40, help="of cases a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--catalog", type=Path, default=Path("targets.toml"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    upstream = load_catalog(options.catalog).upstreams[0]
    sources = [
        WheelSource(next(options.wheels.glob(f"{upstream.distribution}-{v}-*.whl")), upstream)
        for v in options.releases
    ]
    counts: Counter[tuple[str, str, str]] = Counter()
    chance = random.Random(options.seed)  # noqa: S311 - chance, not secrecy
    for old, new in pairwise(sources):
        modules = OtherFiles(old=_modules(old), new=_modules(new))
        for case in _cases(old, new, chance, options.number):
            counts[case.kind, "merge-file", _by_git(case)] += 1
            others = replace(modules, package=case.name.rpartition("/")[0].replace("/", "."))
            merged = merge(case.base, case.ours, case.theirs, python=True, others=others)
            verdict = "conflict" if merged.conflicts else _verdict(merged.data, case.right)
            counts[case.kind, "pkgtools", verdict] += 1
            if verdict == "differs":
                rules = {rule for chunk in merged.chunks for rule in chunk.rules}
                print(f"differs: {case.name} ({old.version} > {new.version}) {sorted(rules)}")
                _show(case, merged.data)
    verdicts = ("conflict", "same", "order", "differs")
    print(f"{'halves':8} {'by':10} " + " ".join(f"{verdict:>8}" for verdict in verdicts))
    for kind in ("words", "blocks"):
        for tool in ("merge-file", "pkgtools"):
            row = [counts[kind, tool, verdict] for verdict in verdicts]
            print(f"{kind:8} {tool:10} " + " ".join(f"{count:8}" for count in row))


def _modules(source: WheelSource) -> Callable[[str], bytes | None]:
    """Return what reads a module of a release by its dotted name."""
    names = {info.filename for info in source.members()}

    @cache
    def read(dotted: str) -> bytes | None:
        stem = dotted.replace(".", "/")
        found = (name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in names)
        return next(map(source.read_member, found), None)

    return read


def _show(case: Case, made: bytes) -> None:
    for title, one, two in (("patch", case.base, case.ours), ("made, right", made, case.right)):
        old, new = one.decode().splitlines(), two.decode().splitlines()
        print(f"  {title}:")
        for line in list(difflib.unified_diff(old, new, lineterm="", n=1))[2:40]:
            print(f"    {line}")


def _cases(
    old: WheelSource, new: WheelSource, chance: random.Random, number: int
) -> Iterator[Case]:
    names = [i.filename for i in old.members() if i.filename.endswith(".py")]
    common = {i.filename: i.CRC for i in new.members()}
    changed = [i for i in old.members() if i.filename in names and i.filename in common]
    changed = [i for i in changed if common[i.filename] != i.CRC]
    chance.shuffle(changed)
    found = 0
    for info in changed:
        base, right = old.read_member(info.filename), new.read_member(info.filename)
        for case in _file_cases(info.filename, base, right, chance):
            yield case
            found += 1
        if found >= number:
            return


def _file_cases(name: str, base: bytes, right: bytes, chance: random.Random) -> Iterator[Case]:
    lines = split(base), split(right)
    hunks = diff(*lines)
    chosen = list(hunks)
    chance.shuffle(chosen)
    for hunk in chosen[:3]:
        for kind, mine, other in _halves(lines, right, hunk, chance):
            ours = _with(lines, [hunk], {hunk: mine})
            theirs = _with(lines, hunks, {hunk: other})
            if ours == base or not (_is_python(ours) and _is_python(theirs) and _is_python(right)):
                continue
            yield Case(f"{name}:{hunk.old + 1}", kind, base, ours, theirs, right)
            break


def _with(
    lines: tuple[list[bytes], list[bytes]], hunks: list[Chunk], instead: dict[Chunk, bytes]
) -> bytes:
    """Return the old file with some hunks, one of which has another text."""
    out: list[bytes] = []
    at = 0
    for hunk in hunks:
        new = b"".join(lines[1][hunk.new : hunk.new_end])
        out += [*lines[0][at : hunk.old], instead.get(hunk, new)]
        at = hunk.old_end
    return b"".join([*out, *lines[0][at:]])


def _halves(
    lines: tuple[list[bytes], list[bytes]], right: bytes, hunk: Chunk, chance: random.Random
) -> Iterator[tuple[str, bytes, bytes]]:
    old = b"".join(lines[0][hunk.old : hunk.old_end])
    new = b"".join(lines[1][hunk.new : hunk.new_end])
    if not old:
        start = sum(map(len, lines[1][: hunk.new]))
        for cut in _cuts(right, start, start + len(new), chance):
            one, two = right[start:cut], right[cut : start + len(new)]
            yield ("blocks", one, two) if chance.random() < 0.5 else ("blocks", two, one)
        return
    before, after = _WORD.findall(old), _WORD.findall(new)
    if len(before) + len(after) > 3000:
        return
    steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    edits = [n for n, step in enumerate(steps) if step[0] != "equal"]
    for _ in range(4):
        mine = {n for n in edits if chance.random() < 0.5}
        if not mine or len(mine) == len(edits):
            continue
        sides = []
        for wanted in (mine, set(edits) - mine):
            words = [
                after[step[3] : step[4]] if n in wanted else before[step[1] : step[2]]
                for n, step in enumerate(steps)
            ]
            sides.append(b"".join(word for run in words for word in run))
        yield "words", sides[0], sides[1]


def _cuts(right: bytes, start: int, end: int, chance: random.Random) -> list[int]:
    """Return where an inserted run of statements or elements can be cut in two."""
    for node in parse(right).walk():
        if node.shape not in (Shape.BODY, Shape.LIST):
            continue
        inside = [n for n in node.elements if n.start >= start and n.end <= end]
        rest = right[start : inside[0].start] + right[inside[-1].end : end] if inside else b"x"
        if len(inside) > 1 and rest.strip() in (b"", b","):
            cuts = [n.start for n in inside[1:] if starts_line(right, n.start)]
            chance.shuffle(cuts)
            return [right.rfind(b"\n", 0, cut) + 1 for cut in cuts[:3]]
    return []


def _by_git(case: Case) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("ours", "base", "theirs"):
            Path(scratch, name).write_bytes(getattr(case, name))
        done = subprocess.run(
            ["git", "merge-file", "-p", "ours", "base", "theirs"],
            cwd=scratch,
            capture_output=True,
            check=False,
        )
    return "conflict" if done.returncode else _verdict(done.stdout, case.right)


def _verdict(made: bytes, right: bytes) -> str:
    if made == right:
        return "same"
    if not _is_python(made):
        return "differs"
    one, two = ast.parse(made), ast.parse(right)
    if ast.dump(one) == ast.dump(two):
        return "same"
    return "order" if _unordered(one) == _unordered(two) else "differs"


def _unordered(node: object) -> str:
    """Return a syntax tree as text in which the order of siblings does not count."""
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={sorted(map(_unordered, value))}"
            if name in _UNORDERED and isinstance(value, list)
            else f"{name}={_unordered(value)}"
            for name, value in ast.iter_fields(node)
        ]
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(map(_unordered, node))}]"
    return repr(node)


def _is_python(data: bytes) -> bool:
    try:
        ast.parse(data)
    except (SyntaxError, ValueError):
        return False
    return True


if __name__ == "__main__":
    main()
