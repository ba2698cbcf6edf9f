"""A tree and a catalog live through random commands: nothing is lost, whatever their order."""

from __future__ import annotations

import random
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest
from commands import Result, call
from small import Small, make_small
from trees import snapshot

from pkgtools.blob import Blob
from pkgtools.catalog import load_series
from pkgtools.source.receipt import load_receipt

if TYPE_CHECKING:
    from pathlib import Path

_LINES = [f"LINE_{n} = {n}\n" for n in range(12)]
_KEEP = "".join(_LINES)
_ONE = "".join(["LINE_0 = 'one'\n", *_LINES[1:]])
_FILES = {"keep.py": _KEEP, "b.py": "B = 1\n", "c.py": "C = 1\n"}
_PATCHES = [("keep", {"keep.py": _ONE}), ("b", {"b.py": "B = 2\n", "new.py": "NEW = 1\n"})]
_TARGET = """
[[target]]
name = "two"
upstream = "widget"
series = "two"
release = { version = "1.0", tag = "v1.0" }
"""
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


@pytest.fixture(name="small", scope="module")
def _small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Make a catalog with two targets that change one file in common."""
    made = make_small(tmp_path_factory.mktemp("small"), {"1.0": _FILES}, _PATCHES)
    two = made.series.with_name("two")
    two.mkdir()
    (two / "two.patch").write_text(_TWO)
    (two / "series").write_text("two.patch\n")
    made.catalog.write_text(made.catalog.read_text() + _TARGET)
    return made


class _Life:
    def __init__(self, small: Small, root: Path, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.small = small
        self.site = root / "site"
        with zipfile.ZipFile(small.wheel("1.0")) as wheel:
            wheel.extractall(self.site)
        self.package = self.site / "widget"
        (self.home,) = self.site.glob("*.dist-info")
        self.first = self.contents()
        self.record = (self.home / "RECORD").read_bytes()
        self.edits: dict[str, tuple[bytes, bytes]] = {}
        """Of each edited file, what the edit is on, and the user's content."""
        self.taken: set[bytes] = set()
        self.seen: dict[str, bytes] = {}

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.package.glob("*.py")}

    def run(self, *words: str) -> Result:
        """Run a command; hold what it did against what it may do."""
        verb, *_ = words
        where: list[str | Path] = ["--catalog", self.small.catalog]
        if verb in ("apply", "reverse", "adopt", "refresh", "new"):
            where += ["--tree", self.site]
        if verb not in ("apply", "reverse"):
            where += ["--wheel", self.small.wheel("1.0")]
        before, series = snapshot(self.site), snapshot(self.small.catalog.parent)
        now = self.contents()
        live = {n: mine for n, (_, mine) in self.edits.items() if now.get(n) == mine}
        live = {n: mine for n, mine in live.items() if mine not in self.taken}
        done = call(*words, *where)
        after = snapshot(self.site)
        assert done.code in {0} | _REFUSALS, done.err
        if done.code:
            assert (after, snapshot(self.small.catalog.parent)) == (before, series), words
        if verb in ("apply", "reverse", "adopt"):
            assert snapshot(self.small.catalog.parent) == series
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
        verb = self.random.choice(
            ["apply", "apply", "reverse", "adopt", "refresh", "new", "drop", "edit", "edit"]
        )
        if verb == "edit":
            name = self.random.choice(sorted(self.contents()))
            old = (self.package / name).read_bytes()
            new = old + f"# {self.random.random()}\n".encode()
            base, mine = self.edits.get(name, (old, old))
            self.edits[name] = (base if mine == old else old, new)
            (self.package / name).write_bytes(new)
        elif verb == "drop" and patches:
            self.run("drop", *series, self.random.choice(patches))
        elif verb in ("refresh", "new"):
            name = f"n{self.random.randrange(10**6)}.patch"
            self.run(verb, *([name, "-m", "more"] if verb == "new" else []), *series)
            self.run("lock", "--target", target)
        elif verb in ("apply", "adopt", "reverse"):
            self.run(verb, "--target", target)

    def reverse_all(self) -> None:
        """Reverse everything; where a receipt's file was edited, undo the edit first."""
        while receipt := load_receipt(self.home):
            if self.run("reverse").code == 0:
                continue
            top = receipt.entries[-1]
            now = {n: Blob(data).id for n, data in self.contents().items()}
            edited = [f for f in top.files if now.get(f.path.rpartition("/")[2], "") != f.after]
            assert edited, "refused without an edit"
            for file in edited:
                name = file.path.rpartition("/")[2]
                (self.package / name).write_bytes(self.seen[file.after])
                self.edits.pop(name, None)


@pytest.mark.parametrize("seed", [*range(10), 58])
def test_nothing_is_lost_in_any_order(small: Small, tmp_path: Path, seed: int) -> None:
    shutil.copytree(small.root, tmp_path / "small", ignore=shutil.ignore_patterns("upstream"))
    life = _Life(Small(tmp_path / "small", small.commits), tmp_path, seed)
    life.run("lock")
    life.run("apply", "--target", "one")
    for _ in range(10):
        life.step()
    life.reverse_all()
    for name, data in life.contents().items():
        base, mine = life.edits.get(name, (b"", b""))
        assert data == life.first.get(name) or (base, mine) == (life.first.get(name), data), name
    assert life.first.keys() == life.contents().keys()
    assert (life.home / "RECORD").read_bytes() == life.record
