"""Merging lines: held against ``git merge-file`` on small files, where every case occurs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from pkgtools.merge.lines import Hunk, diff, shift, split, without
from pkgtools.merge.markers import has_markers, mark
from pkgtools.merge.three_way import merge

if TYPE_CHECKING:
    from pathlib import Path

_FILES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n"]), max_size=9).map(
    b"".join
)


@settings(max_examples=300, deadline=None)
@given(_FILES, _FILES, _FILES)
def test_a_clean_merge_has_both_changes(base: bytes, ours: bytes, theirs: bytes) -> None:
    """Every line stands as often as base has it, and both changes add and take away."""
    merged = merge(base, ours, theirs, python=False)
    if merged.conflicts:
        return
    counts = {line: _counts(base, ours, theirs, line) for line in set(split(ours + theirs + base))}
    made = split(merged.data)
    if not any(h.result == "absorbed" for h in merged.hunks):
        assert {line: made.count(line) for line in counts} == counts


def _counts(base: bytes, ours: bytes, theirs: bytes, line: bytes) -> int:
    one, two, three = (split(data).count(line) for data in (base, ours, theirs))
    return two + three - one


@settings(max_examples=300, deadline=None)
@given(_FILES, _FILES)
def test_a_diff_leads_from_the_old_to_the_new(old: bytes, new: bytes) -> None:
    before, after = split(old), split(new)
    hunks = diff(before, after)
    assert without(after, before, hunks) == old
    touched = {n for h in hunks for n in range(h.old, h.old_end)}
    for line in set(range(len(before))) - touched:
        assert after[shift(hunks, line)] == before[line]


def test_a_clean_merge_is_gits(tmp_path: Path) -> None:
    base = b"".join(b"line %d\n" % n for n in range(40))
    ours = base.replace(b"line 3\n", b"ours\n").replace(b"line 30\n", b"")
    theirs = base.replace(b"line 8\n", b"theirs\nmore\n").replace(b"line 0\n", b"")
    assert merge(base, ours, theirs, python=False).data == _git(tmp_path, base, ours, theirs)


def test_markers_are_gits(tmp_path: Path) -> None:
    base = b"a\nb\nc\nd\ne\nf\ng\n"
    ours = b"a\nB\nc\nd\ne\nf\nnew\ng\n"
    theirs = b"a\nBB\nc\nd\nE\nf\ng\n"
    merged = merge(base, ours, theirs, python=False)
    assert [h.hunk for h in merged.conflicts] == [Hunk(1, 2, 1, 2)]
    marked = mark(base, ours, merged.data, [Hunk(1, 2, 1, 2)], ("ours", "base", "theirs"))
    assert marked == _git(tmp_path, base, ours, theirs)
    assert has_markers(marked)
    assert not has_markers(merged.data)


def _git(folder: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes:
    for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
        (folder / name).write_bytes(data)
    command = ["git", "merge-file", "-p", "--diff3", "ours", "base", "theirs"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout
