"""pkgtools, git and patch(1) on the same patches in the forms in which people have them.

A case is a file: a diff of git or of diff(1) with any options and prefixes, or a mail as a
mailer sends it. Git reads it by ``git mailsplit``, ``git mailinfo`` and ``git apply -p``, a
diff of diff(1) is read by patch(1) as well. What must hold: pkgtools makes the same tree, or
refuses, and of each form it reads what the others read, but for what is listed.

``PKGTOOLS_DIFF_CASES`` and ``PKGTOOLS_DIFF_SEED`` are as in `test_differential`.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from forms import Form, from_diff, from_git, regular
from git_oracle import Git, apply_forms, git, read_back, write_out
from hypothesis import HealthCheck, Phase, assume, given, note, seed, settings
from hypothesis import strategies as st
from test_differential import CASES, SEED, git_cannot, touched, why_stricter
from tree_strategies import changed, disturbed, options, trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from git_oracle import Tree

    from pkgtools.blob import Blob

SHARES = 2
"""So many tests share the cases, for pytest-xdist to spread."""

log = logging.getLogger(__name__)


@pytest.fixture
def root() -> Iterator[Path]:
    """Yield a folder for many small files: in memory where there is a place for that."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


class Forms:
    """Puts files to pkgtools and to the other programs, and counts what is said."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git = Git(root)
        self.tally: Counter[str] = Counter()
        self.cases = 0

    def search(self, cases: int, first_seed: int, body: Callable[[st.DataObject], None]) -> None:
        """Run `body` until so many cases were compared; the same ones each time."""
        how = settings(
            max_examples=max(cases // 10, 1),
            deadline=None,
            database=None,
            print_blob=True,
            report_multiple_bugs=False,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        for number in itertools.count(first_seed):
            how(seed(number)(given(st.data())(body)))()
            if self.cases >= cases:
                break
        log.info("seeds %d to %d: %s", first_seed, number, dict(sorted(self.tally.items())))

    def ask(self, form: Form, tree: Tree) -> tuple[Tree | None, str]:
        """Return what pkgtools makes of a tree, and why not."""
        ours, why = apply_forms(tree, form.data)
        note(f"{form.name}: {why}\n{tree}")
        note(form.data.decode("latin-1"))
        self.cases += 1
        self.tally[form.name] += 1
        self.tally[f"{form.name}: read"] += ours is not None
        return ours, why

    def patches(self, form: Form) -> list[bytes]:
        """Return the patches that git finds, in mails as ``git am --keep-cr`` reads them.

        Without that option git would take the carriage returns from files that have them.
        With it they stay where only the way of an encoded mail put them.
        """
        if not form.is_mail:
            return [form.data.removeprefix(b"\xef\xbb\xbf")]
        mails = [form.data]
        if form.name == "mailbox" or form.name.endswith("CRLF"):
            out = self.root / "mails"
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            keep = [] if form.name.endswith("CRLF") else ["--keep-cr"]
            split = git(self.root, "mailsplit", "-omails", *keep, stdin=form.data)
            assert split.returncode == 0, split.stderr
            mails = [mail.read_bytes() for mail in sorted(out.iterdir())]
        patches = []
        for mail in mails:
            read = git(self.root, "mailinfo", "--quoted-cr=nowarn", "m", "p", stdin=mail)
            assert read.returncode == 0, read.stderr
            patches.append((self.root / "p").read_bytes())
        return patches


def in_lf(tree: Tree) -> Tree:
    """Return a tree with the line ends of its CRLF files as LF."""
    return {
        path: replace(blob, data=blob.data.replace(b"\r\n", b"\n")) if is_crlf(blob) else blob
        for path, blob in tree.items()
    }


def in_crlf(made: Tree | None, tree: Tree) -> Tree | None:
    """Return what git made of `in_lf(tree)` with the line ends that the files of `tree` have."""
    if made is None:
        return None
    return {
        path: replace(blob, data=blob.data.replace(b"\n", b"\r\n"))
        if path in tree and is_crlf(tree[path])
        else blob
        for path, blob in made.items()
    }


def is_crlf(blob: Blob) -> bool:
    """Whether every line ends in CRLF."""
    return b"\r\n" in blob.data and b"\n" not in blob.data.replace(b"\r\n", b"")


@pytest.mark.parametrize("share", range(SHARES))
def test_what_git_and_mailers_write_is_read_as_git_reads_it(root: Path, share: int) -> None:
    forms = Forms(root)

    def check(data: st.DataObject) -> None:
        steps = [data.draw(trees())]
        for _ in range(data.draw(st.sampled_from((1, 1, 1, 1, 2, 3)))):
            steps.append(data.draw(changed(steps[-1])))
        how = data.draw(options())
        form = data.draw(from_git(forms.git, steps, how))
        assume(form.data)
        patches = forms.patches(form)
        paths = tuple(touched(steps[0], steps[-1])) or tuple(steps[0])
        others = [data.draw(disturbed(steps[0], paths)) for _ in range(2)]
        for tree in (steps[0], *others):
            ours, why = forms.ask(form, tree)
            theirs = forms.git.apply(tree, *patches, level=form.level)
            if form.name == "diff in CRLF":
                # Git takes CRLF for content's, git am and patch(1) do not: one answer for all
                # files. Here each file has its own line ends; what the ids name is the truth.
                plain = form.data.replace(b"\r\n", b"\n")
                answers = [theirs, forms.git.apply(tree, plain, level=form.level)]
                answers.append(in_crlf(forms.git.apply(in_lf(tree), plain, level=form.level), tree))
                if tree is steps[0]:
                    assert ours in (None, steps[-1])
                elif answers != [None, None]:
                    assert ours is None or ours in answers
            elif ours is not None and theirs is None:
                # git apply -p strips a folder of the prefix from rename lines, which have none.
                moves = any(b" from " in patch for patch in patches) and form.level != 1
                cannot = any(git_cannot(step, ours) for step in (tree, *steps))
                assert moves or cannot, "pkgtools accepts what git refuses"
            elif ours is not None:
                assert ours == theirs
            elif theirs == steps[-1] and tree is steps[0] and "-U0" not in how:
                whole = b"\n".join(patches)
                pairs = [*itertools.pairwise(steps), (steps[0], steps[-1])]
                reasons = [why_stricter(a, b, whole) for a, b in pairs]
                assert any(reasons) or "-p" in why, why

    forms.search(CASES // 2 // SHARES, SEED + share * 1000, check)
    for name in {name.partition(":")[0] for name in forms.tally}:
        few = forms.tally[name] < 150
        assert few or forms.tally[f"{name}: read"] > forms.tally[name] / 9, name


@pytest.mark.parametrize("share", range(SHARES))
def test_what_diff_writes_is_read_as_git_and_patch_read_it(root: Path, share: int) -> None:
    forms = Forms(root)

    def check(data: st.DataObject) -> None:
        old = regular(data.draw(trees()))
        new = regular(data.draw(changed(old))) if old else {}
        work = root / "diff"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        form = data.draw(from_diff(work, old, new))
        assume(form.data)
        for tree in (old, regular(data.draw(disturbed(old, tuple(touched(old, new)))))):
            ours, _ = forms.ask(form, tree)
            if ours is None:
                continue
            theirs = forms.git.apply(tree, form.data, level=form.level)
            by_patch = apply_with_patch(work, tree, form)
            # Of a date behind spaces git does not see that it is a missing file's; patch(1) does.
            answers = [contents(found) for found in (theirs, by_patch) if found is not None]
            assert contents(ours) in answers

    forms.search(CASES // 2 // SHARES, SEED + share * 1000, check)
    assert forms.tally["diff(1): read"] > forms.tally["diff(1)"] / 3


def contents(tree: Tree) -> dict[str, bytes]:
    return {path: blob.data for path, blob in tree.items()}


def apply_with_patch(root: Path, tree: Tree, form: Form) -> Tree | None:
    """Apply with patch(1) without fuzz; None when it refuses."""
    work = root / "patched"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    write_out(tree, work)
    options = ["--silent", "--force", "--fuzz=0", "--no-backup-if-mismatch", "--binary"]
    made = subprocess.run(
        ["patch", f"-p{form.level}", *options],
        cwd=work,
        input=form.data,
        capture_output=True,
        check=False,
    )
    return None if made.returncode else read_back(work)
