"""Merging lines: held against ``git merge-file`` on small files, where every case occurs."""

from __future__ import annotations

import subprocess
from random import Random
from typing import TYPE_CHECKING

from crash import SHORT
from hypothesis import given, settings
from hypothesis import strategies as st

from pkgtools.merge import merge
from pkgtools.merge.lines import Chunk, diff, shift, without
from pkgtools.merge.markers import Markers, count_markers, mark, mark_lines
from pkgtools.util.lines import split

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FILES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n"]), max_size=9).map(
    b"".join
)


@settings(max_examples=60 if SHORT else 300, deadline=None)
@given(_FILES, _FILES, _FILES)
def test_a_clean_merge_has_both_changes(base: bytes, ours: bytes, theirs: bytes) -> None:
    """Every line stands as often as base has it, and both changes add and take away."""
    merged = merge(base, ours, theirs, python=False)
    if merged.conflicts:
        return
    counts = {line: _counts(base, ours, theirs, line) for line in set(split(ours + theirs + base))}
    made = split(merged.data)
    if not any(c.how == "absorbed" for c in merged.chunks):
        assert {line: made.count(line) for line in counts} == counts


def _counts(base: bytes, ours: bytes, theirs: bytes, line: bytes) -> int:
    one, two, three = (split(data).count(line) for data in (base, ours, theirs))
    return two + three - one


@settings(max_examples=60 if SHORT else 300, deadline=None)
@given(_FILES, _FILES)
def test_a_diff_leads_from_the_old_to_the_new(old: bytes, new: bytes) -> None:
    before, after = split(old), split(new)
    chunks = diff(before, after)
    assert without(after, before, chunks) == old
    touched = {n for c in chunks for n in range(c.old, c.old_end)}
    for line in set(range(len(before))) - touched:
        assert after[shift(chunks, line)] == before[line]


_WORDS = [b"import os", b"x = 1", b"", b"    a()", b"    b()", b"def f(x):", b"    return x", b")"]


def _changed(random: Random, lines: Sequence[bytes]) -> list[bytes]:
    """Return lines with a few runs put in, taken out and replaced."""
    out = list(lines)
    for _ in range(random.randint(0, 4)):
        at, size = random.randint(0, len(out)), random.randint(0, 3)
        added = random.choices(_WORDS, k=random.randint(0, 3))
        out[at : at + random.choice((0, 0, size))] = added
    return out


def test_a_merge_of_lines_is_gits_whatever_the_lines_are(tmp_path: Path) -> None:
    """Equal lines side by side: where git's diff puts a change decides what touches."""
    random = Random(20)  # noqa: S311 - the same every time
    for _ in range(50 if SHORT else 250):
        base = random.choices(_WORDS, k=random.randint(0, 24))
        both = _changed(random, base)
        versions = base, _changed(random, both), _changed(random, random.choice((base, both)))
        end, last = random.choice((b"\n", b"\n", b"\r\n")), random.choice((b"", b"\n"))
        files = [end.join(lines) + (end if last else b"") if lines else b"" for lines in versions]
        for diff3 in (True, False):
            size = random.choice((3, 7, 12))
            markers = Markers("ours", "base", "theirs", size, diff3=diff3)
            options = [f"--marker-size={size}", *(["--diff3"] if diff3 else [])]
            theirs = _git_merge(tmp_path, files, options)
            assert mark_lines(files[0], files[1], files[2], markers) == theirs, files
        merged = merge(files[0], files[1], files[2], python=False)
        assert bool(merged.conflicts) is bool(theirs[1]), files
        assert merged.conflicts or merged.data == theirs[0], files


def _git_merge(folder: Path, files: Sequence[bytes], options: list[str]) -> tuple[bytes, int]:
    for name, data in zip(("base", "ours", "theirs"), files, strict=True):
        (folder / name).write_bytes(data)
    config = ["git", "-c", "merge.conflictStyle=merge", "merge-file", "-p", *options]
    done = subprocess.run(
        [*config, "ours", "base", "theirs"], cwd=folder, capture_output=True, check=False
    )
    return done.stdout, done.returncode


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
    assert [c.chunk for c in merged.conflicts] == [Chunk(1, 2, 1, 2)]
    marked = mark(base, ours, merged, Markers("ours", "base", "theirs"))
    assert marked == _git(tmp_path, base, ours, theirs)
    assert count_markers(marked) == 4
    assert count_markers(merged.data) == 0


def _git(folder: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes:
    return _git_merge(folder, (base, ours, theirs), ["--diff3"])[0]
