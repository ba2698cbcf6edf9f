"""A tree and a catalog live through random commands: nothing is lost, whatever their order."""

from __future__ import annotations

import random
import shutil
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from project import git, git_environment
from small import Small, make_small
from trees import snapshot

from pkgtools.blob import Blob
from pkgtools.catalog import load_series
from pkgtools.source.receipt import StackEntry, load_receipt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_LINES = [f"LINE_{n} = {n}\n" for n in range(12)]
_KEEP = "".join(_LINES)
_ONE = "".join(["LINE_0 = 'one'\n", *_LINES[1:]])
_FILES = {"keep.py": _KEEP, "b.py": "B = 1\n", "c.py": "C = 1\n"}
_NEXT = {**_FILES, "b.py": "B = 1\n# 1.1\n"}
_PATCHES = [("keep", {"keep.py": _ONE}), ("b", {"b.py": "B = 2\n", "new.py": "NEW = 1\n"})]
_TWO = """\
--- a/src/widget/keep.py
+++ b/src/widget/keep.py
@@ -9,3 +9,3 @@
 LINE_8 = 8
-LINE_9 = 9
+LINE_9 = 'two'
 LINE_10 = 10
--- a/src/widget/c.py
+++ b/src/widget/c.py
@@ -1 +1 @@
-C = 1
+C = 2
"""
_REFUSALS = {2, 3, 4, 5, 6}
_VERBS = (
    *("apply", "apply", "reverse", "adopt", "refresh", "new", "drop", "rename"),
    *("edit", "edit", "put-back", "put-back", "git", "git"),
)


@pytest.fixture(name="small", scope="module")
def _small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Make a catalog with two targets that change one file in common."""
    releases = {"1.0": _FILES, "1.1": _NEXT}
    made = make_small(tmp_path_factory.mktemp("small"), releases, _PATCHES)
    made.add_target("two", _TWO)
    return made


class _Life:
    def __init__(self, small: Small, root: Path, kind: str, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.small, self.kind, self.tree = small, kind, root / "tree"
        self.home = self.tree / (".git/pkgtools" if kind == "git" else ".pkgtools")
        self.package = self.tree / ("widget" if kind == "site" else "src/widget")
        if kind == "git":
            git(root, "clone", "--quiet", "--branch", "v1.0", small.repository, self.tree)
        else:
            with zipfile.ZipFile(small.wheel("1.0")) as wheel:
                wheel.extractall(self.tree)
        if kind == "site":
            (self.home,) = self.tree.glob("*.dist-info")
            self.record = (self.home / "RECORD").read_bytes()
        elif kind == "plain":
            shutil.move(self.tree / "widget", self.package)
        self.first = self.contents()
        self.released = {(n, text.encode()) for r in (_FILES, _NEXT) for n, text in r.items()}
        self.edits: dict[str, tuple[bytes, bytes]] = {}
        """Of each edited file, what the edit is on, and the user's content."""
        self.taken: set[bytes] = set()
        self.seen: dict[str, bytes] = {}
        self.moved = False

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.package.glob("*.py")}

    def entries(self) -> tuple[StackEntry, ...]:
        receipt = load_receipt(self.home)
        return receipt.entries if receipt else ()

    def settled(self, name: str, found: bytes | None) -> bool:
        """Whether a file's content is a release's, or git's."""
        if self.kind != "git":
            return (name, found) in self.released
        shown = subprocess.run(
            ["git", "-C", self.tree, "show", f"HEAD:src/widget/{name}"],
            capture_output=True,
            check=False,
        )
        return found == (None if shown.returncode else shown.stdout)

    def hold_receipts(self, before: Sequence[StackEntry], files: Mapping[str, bytes]) -> None:
        """Hold that a receipt that is gone was undone by the command, or void."""
        kept = {file.path for entry in self.entries() for file in entry.files}
        now = self.contents()
        for file in (file for entry in before for file in entry.files if file.path not in kept):
            name = file.path.rpartition("/")[2]
            found, original = now.get(name), file.original
            if found == files.get(name) and found != (original and original.blob().data):
                assert self.settled(name, found), f"the original of {name} is lost"

    def hold_status(self) -> None:
        """Hold that a tree is called patched only if each file of its receipts is as written."""
        done = call("status", "--tree", self.tree, "--catalog", self.small.catalog, "--json")
        if done.facts.get("state") not in ("pristine", "patched"):
            return
        now = {n: Blob(data).id for n, data in self.contents().items()}
        standing = {entry["target"] for entry in done.facts["stack"]}
        entries = (entry for entry in self.entries() if entry.target in standing)
        top = {file.path: file.after for entry in entries for file in entry.files}
        differing = {p for p, after in top.items() if now.get(p.rpartition("/")[2], "") != after}
        assert not differing or done.facts["receipt_is_void"]
        assert done.facts["state"] == "patched" or differing == set(top) or not top

    def run(self, *words: str) -> Result:
        """Run a command; hold what it did against what it may do."""
        verb, *_ = words
        where: list[str | Path] = ["--catalog", self.small.catalog]
        if verb in ("apply", "reverse", "adopt", "refresh", "new"):
            where += ["--tree", self.tree]
        if verb not in ("apply", "reverse", "rename"):
            where += ["--wheel", self.small.wheel("1.0")]
        before, series = snapshot(self.tree), snapshot(self.small.catalog.parent)
        now, entries = self.contents(), self.entries()
        live = {n: mine for n, (_, mine) in self.edits.items() if now.get(n) == mine}
        live = {n: mine for n, mine in live.items() if mine not in self.taken}
        done = call(*words, *where)
        after = snapshot(self.tree)
        assert done.code in {0} | _REFUSALS, done.err
        if done.code:
            assert (after, snapshot(self.small.catalog.parent)) == (before, series), words
        if verb in ("apply", "reverse", "adopt"):
            assert snapshot(self.small.catalog.parent) == series
            self.hold_receipts(entries, now)
            now = self.contents()
            assert {n: now.get(n) for n in live} == live, f"{words} lost an edit"
        else:
            assert after == before, words
        if verb in ("refresh", "new") and done.code == 0:
            self.taken |= set(now.values())  # the series may have them now, and take them out
        self.seen |= {Blob(data).id: data for data in self.contents().values()}
        return done

    def step(self) -> None:
        target = self.random.choice(["one", "one", "two"])
        series = ["--series", target]
        patches = [p.name for p in load_series(self.small.series.with_name(target)).patches]
        verb = self.random.choice(_VERBS)
        if verb == "edit":
            name = self.random.choice(sorted(self.contents()))
            old = (self.package / name).read_bytes()
            new = old + f"# {self.random.random()}\n".encode()
            base, mine = self.edits.get(name, (old, old))
            self.edits[name] = (base if mine == old else old, new)
            (self.package / name).write_bytes(new)
        elif verb == "drop" and patches:
            self.run("drop", *series, self.random.choice(patches))
        elif verb == "rename" and patches:
            renamed = f"r{self.random.randrange(10**6)}.patch"
            self.run("rename", *series, self.random.choice(patches), renamed)
        elif verb == "put-back" and self.entries():
            files = self.random.choice(self.entries()).files
            left = self.random.choice([*self.edits, None])
            for file in files:
                path = self.package / file.path.rpartition("/")[2]
                if path.name == left:
                    continue
                path.unlink(missing_ok=True)
                if file.original is not None:
                    path.write_bytes(file.original.blob().data)
                self.edits.pop(path.name, None)
            self.run("apply", "--target", target)
        elif verb == "git" and self.kind == "git":
            self._git()
        elif verb in ("refresh", "new"):
            name = f"n{self.random.randrange(10**6)}.patch"
            self.run(verb, *([name, "-m", "more"] if verb == "new" else []), *series)
            self.run("lock", "--target", target)
        elif verb in ("apply", "adopt", "reverse"):
            self.run(verb, "--target", target)
        self.hold_status()

    def _git(self) -> None:
        verbs = ["checkout --quiet", "checkout --quiet --force", "stash --quiet", "commit --all"]
        verbs += ["reset --quiet --hard", "clean --quiet --force"]
        verb, *options = self.random.choice(verbs).split()
        more = {"checkout": [self.random.choice(["v1.0", "v1.1"])], "commit": ["--message=x"]}
        words = ["git", verb, *options, *more.get(verb, [])]
        done = subprocess.run(
            words, cwd=self.tree, env=git_environment(), capture_output=True, check=False
        )
        self.moved = self.moved or done.returncode == 0
        now = self.contents()
        self.edits = {n: (b, mine) for n, (b, mine) in self.edits.items() if now.get(n) == mine}

    def reverse_all(self) -> None:
        """Reverse everything; where a receipt's file was edited, undo the edit first."""
        while entries := self.entries():
            if self.run("reverse").code == 0:
                continue
            top = entries[-1]
            now = {n: Blob(data).id for n, data in self.contents().items()}
            edited = [f for f in top.files if now.get(f.path.rpartition("/")[2], "") != f.after]
            assert edited, "refused without an edit"
            for file in edited:
                name = file.path.rpartition("/")[2]
                (self.package / name).unlink(missing_ok=True)
                if file.after:
                    (self.package / name).write_bytes(self.seen[file.after])
                self.edits.pop(name, None)


@pytest.mark.parametrize("kind", ["site", "git", "plain"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_in_any_order(small: Small, tmp_path: Path, kind: str, seed: int) -> None:
    shutil.copytree(small.root, tmp_path / "small", ignore=shutil.ignore_patterns("upstream"))
    (tmp_path / "small/upstream").symlink_to(small.root / "upstream")
    life = _Life(Small(tmp_path / "small", small.commits), tmp_path, kind, seed)
    life.run("lock")
    life.run("apply", "--target", "one")
    for _ in range(10):
        life.step()
    life.reverse_all()
    for name, data in life.contents().items():
        base, mine = life.edits.get(name, (b"", b""))
        if not (life.moved or data == life.first.get(name)):
            assert (base, mine) == (life.first.get(name), data), name
    if not life.moved:
        assert life.first.keys() == life.contents().keys()
    if kind == "site":
        assert (life.home / "RECORD").read_bytes() == life.record
