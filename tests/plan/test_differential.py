"""pkgtools and ``git apply`` on the same patches.

A case is one patch and one tree, put to both. Real git writes each patch between
two small trees; it is applied to the very tree it was made for, to trees that were
changed elsewhere, and once more with damage done to the patch.

What must hold: whatever pkgtools accepts, git accepts, with the same tree, byte by
byte and mode by mode; and whatever git makes and takes itself, pkgtools takes,
but for what `why_stricter` lists.

``PKGTOOLS_DIFF_CASES`` sets the number of cases on whole trees, and as many again on
one file full of twins; ``PKGTOOLS_DIFF_SEED`` picks others.
"""

from __future__ import annotations

import io
import itertools
import logging
import os
import posixpath
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from git_oracle import Git, apply_ours
from hypothesis import HealthCheck, Phase, assume, given, note, seed, settings
from hypothesis import strategies as st
from tree_strategies import (
    REFUSED,
    changed,
    damaged,
    disturbed,
    modules,
    options,
    rearranged,
    renumbered,
    trees,
)
from unidiff.patch import PatchSet

from pkgtools.blob import SYMLINK, Blob
from pkgtools.patch.encoding import is_converted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from git_oracle import Tree

CASES = int(os.environ.get("PKGTOOLS_DIFF_CASES", "300"))
SEED = int(os.environ.get("PKGTOOLS_DIFF_SEED", "0"))
SHARES = 3
"""So many tests share the cases, for pytest-xdist to spread."""

log = logging.getLogger(__name__)


@pytest.fixture
def compare() -> Iterator[Comparison]:
    # Many small files for a short time: in memory where there is a place for that.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with TemporaryDirectory(dir=memory) as root:
        yield Comparison(Path(root))


def above(path: str) -> list[str]:
    """Return the directories above a path."""
    return [path[:at] for at, letter in enumerate(path) if letter == "/"]


def touched(old: Tree, new: Tree) -> set[str]:
    return {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}


def leaves_tree(path: str, target: bytes) -> bool:
    """Whether a link's target climbs out, or climbs behind a name that may be a link itself."""
    landing = posixpath.normpath(posixpath.join("/top", posixpath.dirname(path), target.decode()))
    odd = not target.startswith(b"..") and b".." in target
    return odd or not (landing + "/").startswith("/top/")


def why_stricter(old: Tree, new: Tree, patch: bytes) -> str | None:
    """Return why pkgtools must refuse a patch that git makes and takes, if it must."""
    paths = touched(old, new)
    spellings = [written for name in REFUSED for written in REFUSED[name]]
    if paths & set(REFUSED) or any(b"\ncopy from %s\n" % name in patch for name in spellings):
        return "a name that no RECORD can list, or that some file system takes for .git"
    if any(
        path in new and new[path].mode == SYMLINK and leaves_tree(path, new[path].data)
        for path in paths
    ):
        return "a link that leads out of the tree"
    if paths & {directory for path in old for directory in above(path)}:
        return "a directory becomes a file: a plan cannot list what else the directory holds"
    if b"\nBinary files " in patch:  # git deletes such a file when it has the blob's full id
        return "a binary file differs, and its data is not there"
    return None


def git_cannot(tree: Tree, ours: Tree) -> str | None:
    """Return why git refuses a patch that is right, if there is a known reason.

    Where a link makes way for a directory git asks the file system for the new
    path, through the link: a link to itself is an error to it. A rename line has
    no mode, and then git does not see that the link leaves.
    """
    for path in ours.keys() - tree.keys():
        if any(top in tree and tree[top].mode == SYMLINK for top in above(path)):
            return "a link becomes a directory"
    return None


def _is_converted(patch: bytes) -> bool:
    """Whether all of a patch file was converted to CRLF, which git does not undo."""
    return b"\r\n" in patch and patch.count(b"\r\n") == patch.count(b"\n")


class Comparison:
    """Puts cases to both programs, each case once, and counts what they say."""

    def __init__(self, root: Path) -> None:
        self.git = Git(root)
        self.tally: Counter[str] = Counter()
        self._known: dict[object, tuple[Tree | None, Tree | None]] = {}

    def __call__(self, kind: str, tree: Tree, *patches: bytes) -> tuple[Tree | None, Tree | None]:
        key = (frozenset(tree.items()), patches)
        if key in self._known:
            return self._known[key]
        ours, why = apply_ours(tree, *patches)
        theirs = self.git.apply(tree, *patches)
        if ours not in (None, theirs) and any(map(is_converted, patches)):
            # git apply takes the line ends of the file that they are in for content's; git am
            # and patch(1) do not.
            theirs = self.git.apply(tree, *(p.replace(b"\r\n", b"\n") for p in patches))
            if theirs is None and any(b"\r\n" in blob.data for blob in tree.values()):
                theirs = ours  # files of both kinds: git has one answer for all of them
        verdict = {
            (True, True): "both accept",
            (True, False): "only pkgtools accepts",
            (False, True): "only git accepts",
            (False, False): "both refuse",
        }[ours is not None, theirs is not None]
        note(f"{kind}: {verdict} {why}\n{tree}")
        for patch in patches:
            note(patch.decode("latin-1"))
        if ours is not None and theirs is None:
            known = any(map(_is_converted, patches)) or git_cannot(tree, ours)
            assert known, "pkgtools accepts what git refuses"
        elif ours is not None:
            assert ours == theirs
        self.tally[f"{kind}: {verdict}"] += 1
        self.tally[f"at an offset: {kind}"] += why == "at an offset"
        self._known[key] = ours, theirs
        return ours, theirs

    def count(self, start: str) -> int:
        return sum(number for name, number in self.tally.items() if name.startswith(start))

    def search(self, cases: int, first_seed: int, body: Callable[[st.DataObject], None]) -> None:
        """Run `body` until so many different cases were compared; the same ones each time."""
        how = settings(
            max_examples=max(cases // 10, 1),
            deadline=None,
            database=None,
            print_blob=True,
            report_multiple_bugs=False,
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        for number in itertools.count(first_seed):
            how(seed(number)(given(st.data())(body)))()
            if len(self._known) >= cases:
                break
        log.info("seeds %d to %d: %s", first_seed, number, dict(sorted(self.tally.items())))


def draw_patch(data: st.DataObject, git: Git, old: Tree, new: Tree) -> tuple[bytes, Sequence[str]]:
    how = data.draw(options())
    message = data.draw(st.sampled_from(("", "", "a subject\n\nA body\n")))
    return git.diff(old, new, how, message), how


@pytest.mark.parametrize("share", range(SHARES))
def test_same_answer_as_git_apply(compare: Comparison, share: int) -> None:
    def check(data: st.DataObject) -> None:
        old = data.draw(trees())
        new = data.draw(changed(old))
        assume(old != new)
        patch, how = draw_patch(data, compare.git, old, new)
        assume(patch)
        ours, theirs = compare("exact", old, patch)
        if ours is not None:
            assert ours == new
        reason = why_stricter(old, new, patch)
        if theirs is not None and "-U0" not in how:  # without context nothing can be verified
            assert (ours is None) == (reason is not None), reason
        paths = tuple(touched(old, new))
        compare("changed tree", data.draw(disturbed(old, paths)), patch)
        other = data.draw(disturbed(old, paths))
        compare("changed tree", other, patch)
        compare("damaged patch", old, data.draw(damaged(patch)))
        compare("damaged patch", other, data.draw(damaged(patch)))

    compare.search(-(-CASES // SHARES), SEED + share * 1000, check)
    # None of this means anything unless both yes and no are frequent answers.
    for kind in ("exact", "changed tree", "damaged patch"):
        assert compare.count(f"{kind}: both accept") > compare.count(kind) / 20
    for kind in ("changed tree", "damaged patch"):
        assert compare.count(f"{kind}: both refuse") > compare.count(kind) / 20


Stretch = tuple[int, list[str]]
"""A place, as an index into a list of lines, and the lines that belong there."""


def stretches(patch: bytes) -> Iterator[tuple[Stretch, Stretch, bool]]:
    """Yield each hunk's lines before and after, and whether the file ends there; by unidiff."""
    for file in PatchSet(io.StringIO(patch.decode(), newline="\n")):
        for hunk in file:
            before, after = list(hunk.source), list(hunk.target)
            for side in (before, after):
                for at in [at for at, line in enumerate(side) if line[0] == "\\"][::-1]:
                    side[at - 1 : at + 1] = [side[at - 1].removesuffix("\n")]
            old = (hunk.source_start - bool(hunk.source_length), [line[1:] for line in before])
            new = (hunk.target_start - bool(hunk.target_length), [line[1:] for line in after])
            last = [line for line in hunk if line.line_type != "\\"][-1]
            yield old, new, last.line_type != " "


def found(source: list[str], wanted: list[str], *, first: bool, last: bool) -> list[int]:
    return [
        at
        for at in range(len(source) - len(wanted) + 1)
        if source[at : at + len(wanted)] == wanted
        and not (first and at)
        and not (last and at + len(wanted) != len(source))
    ]


def only_places(text: str, patch: bytes) -> list[int] | None:
    """Find each hunk's place line by line; None where there is none, or more than one."""
    source = text.splitlines(keepends=True)
    hunks = list(stretches(patch))
    options = [found(source, lines, first=at == 0, last=last) for (at, lines), _, last in hunks]
    if all(at in places for ((at, _), _, _), places in zip(hunks, options, strict=True)):
        return [at for (at, _), _, _ in hunks]
    if any(len(places) != 1 for places in options):
        return None
    taken = sorted(
        (p[0], p[0] + len(old[1])) for p, (old, _, _) in zip(options, hunks, strict=True)
    )
    if any(end > start for (_, end), (start, _) in itertools.pairwise(taken)):
        return None
    return [places[0] for places in options]


def stands_already(text: str, patch: bytes) -> bool:
    """Whether the file holds what a hunk makes, so that its only place may be a twin's."""
    source = text.splitlines(keepends=True)
    return any(found(source, new[1], first=False, last=False) for _, new, _ in stretches(patch))


@pytest.mark.parametrize("share", range(SHARES))
def test_hunks_go_to_the_only_place_or_nowhere(compare: Comparison, share: int) -> None:
    def join(blocks: list[list[str]], end: str) -> str:
        return "\n".join(line for block in blocks for line in block) + end

    def check(data: st.DataObject) -> None:
        blocks = data.draw(modules())
        end = data.draw(st.sampled_from(("\n", "\n", "")))
        old = join(blocks, end)
        new = join(data.draw(rearranged(blocks)), data.draw(st.sampled_from((end, end, "\n"))))
        assume(old != new)
        context = data.draw(st.sampled_from((3, 2, 1, 1, 5)))
        before, after = ({"f.py": Blob(text.encode())} for text in (old, new))
        patch = compare.git.diff(before, after, (f"-U{context}",))
        assert compare("exact", before, patch) == (after, after)
        compare("renumbered", before, data.draw(renumbered(patch)))
        texts = [join(data.draw(rearranged(blocks)), end) for _ in range(3)]
        for kind, text in zip(("applied", *["changed text"] * 3), (new, *texts), strict=True):
            ours, _ = compare(kind, {"f.py": Blob(text.encode())}, patch)
            places = only_places(text, patch)
            if ours is not None:
                assert places is not None, "a hunk went to one of several places, or to none"
            else:
                assert places is None or stands_already(text, patch)

    compare.search(-(-CASES // SHARES), SEED + share * 1000, check)
    assert compare.count("at an offset: changed text") > CASES // SHARES // 50
    assert compare.count("changed text: only git accepts") > CASES // SHARES // 100


def test_same_answer_on_a_series(compare: Comparison) -> None:
    def check(data: st.DataObject) -> None:
        steps = [data.draw(trees())]
        for _ in range(data.draw(st.integers(2, 3))):
            steps.append(data.draw(changed(steps[-1])))
        patches = [
            draw_patch(data, compare.git, old, new)[0] for old, new in itertools.pairwise(steps)
        ]
        patches = [patch for patch in patches if patch]
        assume(len(patches) > 1)
        ours, _ = compare("exact", steps[0], *patches)
        assert ours in (None, steps[-1])
        paths = tuple(touched(steps[0], steps[-1])) or tuple(steps[0])
        compare("changed tree", data.draw(disturbed(steps[0], paths)), *patches)

    compare.search(CASES // 10, SEED, check)
    assert compare.count("exact: both accept") > compare.count("exact") / 20
    assert compare.count("changed tree: both refuse") > compare.count("changed tree") / 20
