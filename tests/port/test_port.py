"""`pkgtools port`: what becomes of each patch, conflicts and how they are taken up again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git
from small import Small, make_small
from trees import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

A = "def a(x):\n    one = x + 1\n    two = one * 2\n    return two\n"
B = "import os\n\n\nclass B:\n    first: int = 1\n    last: int = 9\n\n\nPATH = os.sep\n"
C = "VALUE = 1\n"
FAR = "".join(f"LINE_{n} = {n}\n" for n in range(20))

A1 = A.replace("two = one * 2", "two = one * 3")
B1 = B.replace("    last", "    ours: int = 5\n    last")
C1 = C.replace("1", "2")
FAR1 = FAR.replace("LINE_15 = 15", "LINE_15 = 0")


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkgtools.port.route.released_versions", lambda _: [])


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Build three releases; every kind of outcome occurs on the way to the third."""
    first = {"a.py": A, "b.py": B, "c.py": C, "far.py": FAR, "same.py": A}
    second = dict(first)
    second["b.py"] = B.replace("    last", "    theirs: int = 7\n    last")
    second["far.py"] = "NEW = 0\n" + FAR
    third = dict(second)
    third["a.py"] = A.replace("two = one * 2", "two = one * 4")
    third["c.py"] = C1
    return make_small(
        tmp_path / "small",
        {"1.0": first, "1.1": second, "1.2": third},
        [
            ("one: changes what upstream will change too", {"a.py": A1}),
            ("two: a field", {"b.py": B1}),
            ("three: a value that upstream will have", {"c.py": C1}),
            ("four: far down", {"far.py": FAR1}),
            ("five: what stays", {"same.py": A1, "added.py": "ADDED = True\n"}),
        ],
    )


def test_outcomes_and_what_is_written(small: Small, tmp_path: Path) -> None:
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new", "--json")
    assert done.code == 0, done.err
    (step,) = done.facts["steps"]
    outcomes = [p["outcome"] for p in step["patches"]]
    assert outcomes == ["unchanged", "merged", "unchanged", "moved", "unchanged"]
    (hunk,) = step["patches"][1]["hunks"]
    assert hunk["rules"] == ["insertion-beside-insertion"]
    assert step["patches"][3]["hunks"][0]["to"] == "src/widget/far.py:17"
    names = (tmp_path / "new" / "series").read_text().split()
    assert names == (small.series / "series").read_text().split()
    for n, name in enumerate(names):
        old, new = (small.series / name).read_bytes(), (tmp_path / "new" / name).read_bytes()
        assert (old == new) is (outcomes[n] == "unchanged"), name
        assert old.partition(b"\n---\n")[0] == new.partition(b"\n---\n")[0]
    made = small.made(tmp_path / "new", "1.1")
    assert (
        made["src/widget/b.py"]
        == B.replace("    last", "    theirs: int = 7\n    ours: int = 5\n    last").encode()
    )
    assert made["src/widget/far.py"] == ("NEW = 0\n" + FAR1).encode()
    _git_takes_it(small, tmp_path, "1.1", made)


def test_stat_and_header_of_a_patch_are_true_inside_another_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where someone stands and what is configured there is not what a patch is made of."""
    small = make_small(
        tmp_path / "small",
        {
            "1.0": {"a.py": FAR, "gone.py": "GONE = True\n", "é b.py": C},
            "1.1": {"a.py": "NEW = 0\n" + FAR, "gone.py": "GONE = True\n", "é b.py": C},
        },
        [("one", {"a.py": FAR1, "added.py": C, "é c.py": C})],
    )
    name = "0001-one.patch"
    git(tmp_path, "init", "--quiet", "elsewhere")
    here = tmp_path / "elsewhere" / "deeper"
    here.mkdir()
    git(here, "config", "diff.context", "1")
    monkeypatch.setenv("TMPDIR", str(here))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(here)
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 0, done.err
    old, new = ((where / name).read_text() for where in (small.series, tmp_path / "new"))
    assert "\n 3 files changed, 3 insertions(+), 1 deletion(-)\n" in old
    assert "\n 3 files changed, 3 insertions(+), 1 deletion(-)\n" in new

    def headers(patch: str) -> list[str]:
        return sorted(n for n in patch.splitlines() if n.startswith(("diff --git", "@@")))

    assert headers(new) == headers(old.replace("@@ -13,7 +13,7", "@@ -14,7 +14,7"))


def _git_takes_it(
    small: Small, tmp_path: Path, version: str, made: dict[str, bytes | None]
) -> None:
    tree = tmp_path / "tree"
    git(small.repository, "worktree", "add", "--quiet", tree, f"v{version}")
    for name in (tmp_path / "new" / "series").read_text().split():
        git(tree, "apply", tmp_path / "new" / name)
    for path, data in made.items():
        assert (tree / path).read_bytes() == data


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("series", "a\0b"),
        ("catalog", "a\0b"),
        ("wheels", ["a\0b"]),
        ("repositories", ["a\0b"]),
        ("stops", ["1.0", "a\0b"]),
        ("path", "src/a\0b"),
        ("path", "../../outside"),
        ("path", "/etc/passwd"),
    ],
)
def test_a_port_json_that_was_written_by_hand(
    key: str, value: object, small: Small, tmp_path: Path
) -> None:
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    path = tmp_path / "new.port" / "port.json"
    facts = json.loads(path.read_text())
    (facts["waiting"][0] if key == "path" else facts)[key] = value
    path.write_text(json.dumps(facts))
    done = call("port", "--continue", "-o", tmp_path / "new")
    assert done.code == 6, done.err
    assert "port.json is damaged" in done.err


def test_a_conflict_is_worked_on_and_taken_up(small: Small, tmp_path: Path) -> None:
    before = snapshot(small.root)
    done = small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    assert done.code == 3
    assert not (tmp_path / "new").exists()
    assert "both change the same" in done.out
    assert "1.0" in done.out.splitlines()[0]
    assert "1.1" in done.out.splitlines()[0]
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    assert conflict.read_text().count("<<<<<<< 0001-one-changes") == 1

    again = small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    assert again.code == 2
    asked = {"line": 3, "reason": "both change the same expression", "proposal": 1}
    (waiting,) = json.loads((tmp_path / "new.port" / "port.json").read_text())["waiting"]
    assert waiting["questions"] == [asked]
    still = call("port", "--continue", "-o", tmp_path / "new")
    assert still.code == 3
    assert "conflict markers:\n  src/widget/a.py\n    line 3 of the old source: both" in still.err
    facts = call("port", "--continue", "-o", tmp_path / "new", "--json").facts
    assert facts["error"]["details"] == {"conflicts": [str(conflict)], "waiting": [waiting]}

    conflict.write_text(A.replace("two = one * 2", "two = one * 7"))
    shutil.copytree(tmp_path / "new.port", tmp_path / "again.port")
    told = call("port", "--continue", "-o", tmp_path / "again")
    assert told.code == 0, told.err
    assert "merged (by-hand)" in told.out
    assert "both change the same" not in told.out
    assert f"next: move {tmp_path / 'again'} into {small.series.parent}\n" in told.out
    done = call("port", "--continue", "-o", tmp_path / "new", "--json")
    assert done.code == 0, done.err
    assert done.facts["dropped"] == ["0003-three-a-value-that-upstream-will-have.patch"]
    assert done.facts["absorbed"] == ["one/0003-three-a-value-that-upstream-will-have.patch"]
    made = small.made(tmp_path / "new", "1.2")
    assert made["src/widget/a.py"] == A.replace("two = one * 2", "two = one * 7").encode()
    assert not (tmp_path / "new.port").exists()
    assert snapshot(small.root) == before


def test_finished_steps_are_not_made_again(small: Small, tmp_path: Path) -> None:
    out = tmp_path / "new"
    first = small.port("--series", "one", "--to", "1.2", "-o", out, "--json")
    assert "step 1 of 2" in first.err
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    conflict.write_text(A.replace("two = one * 2", "two = one * 7"))
    folders = [tmp_path / f"{n}.port" for n in range(3)]
    for folder in folders:
        shutil.copytree(tmp_path / "new.port", folder)
    (folders[1] / "finished.json").write_text("{")
    kept = (folders[2] / "finished.json").read_bytes()
    (folders[2] / "finished.json").write_bytes(kept.replace(b'"data":"', b'"data":"AAAA', 1))
    results = []
    for folder in (tmp_path / "new.port", *folders):
        done = call("port", "--continue", "-o", folder.with_suffix(""), "--json")
        assert done.code == 0, done.err
        assert "step 2 of 2" in done.err
        # What is damaged is not used.
        assert ("step 1 of 2" in done.err) is (folder in folders[1:])
        made = {path.name: path.read_bytes() for path in folder.with_suffix("").iterdir()}
        results.append((done.facts["steps"], made))
    assert all(result == results[0] for result in results)
    assert results[0][0][0] == first.facts["steps"][0]


def test_other_patches_need_other_steps(small: Small, tmp_path: Path) -> None:
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    path = next(small.series.glob("0005*"))
    path.write_text(path.read_text().replace("ADDED = True", "ADDED = False"))
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    conflict.write_text(A.replace("two = one * 2", "two = one * 7"))
    done = call("port", "--continue", "-o", tmp_path / "new")
    assert done.code == 0, done.err
    assert small.made(tmp_path / "new", "1.2")["src/widget/added.py"] == b"ADDED = False\n"


def test_a_folder_called_like_a_release_is_not_meant(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("1.0", "1.1", "1.2"):
        (tmp_path / name).mkdir()
    assert small.port("--series", "one", "--to", "1.1", "-o", "new").code == 0
    assert (tmp_path / "new" / "series").is_file()
    done = small.port("--series", "one", "--to", "./1.1", "-o", "other")
    assert done.code == 2
    assert "1.1 holds no package 'widget'" in done.err


def test_absorbed_by_which_lines(small: Small, tmp_path: Path) -> None:
    done = small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new", "--json")
    patch = done.facts["steps"][1]["patches"][2]
    assert patch["outcome"] == "absorbed"
    assert patch["hunks"][0]["absorbed_by"] == ["src/widget/c.py:1"]
    sides = done.facts["steps"][1]["patches"][0]["hunks"][0]["sides"]
    assert sides == {
        "base": "    two = one * 2\n",
        "ours": "    two = one * 3\n",
        "theirs": "    two = one * 4\n",
    }


def test_what_a_later_file_of_the_patch_adds_is_checked(tmp_path: Path) -> None:
    """The patch adds a method to a mixin; upstream does not make the class of it any more."""
    user = (
        "from widget.z import Mixin\n\n\nclass A(Mixin):\n    def run(self):\n        self.one()\n"
    )
    mixin = "class Mixin:\n    def one(self):\n        pass\n"
    added = "\n    def added(self):\n        pass\n"
    small = make_small(
        tmp_path / "small",
        {
            "1.0": {"a.py": f"{user}\n{FAR}", "z.py": mixin},
            "1.1": {"a.py": f"{user}\n{FAR}".replace("(Mixin)", ""), "z.py": mixin},
        },
        [("one", {"a.py": f"{user}        self.added()\n\n{FAR}", "z.py": mixin + added})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 3
    assert "`self.added` is not there any more" in done.out


def test_what_one_release_absorbed_stays_absorbed(tmp_path: Path) -> None:
    """In the next release upstream has changed it, and nothing of the patch is left to see."""
    small = make_small(
        tmp_path / "small",
        {
            "1.0": {"a.py": A, "c.py": C},
            "1.1": {"a.py": A, "c.py": C1},
            "1.2": {"a.py": A, "c.py": C1.replace("2", "3")},
        },
        [("one", {"a.py": A1}), ("two", {"c.py": C1})],
    )
    done = small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    assert done.code == 0, done.out
    assert done.out.count("absorbed  0002-two") == 2
    assert "empty" not in done.out
    assert "left out: 0002-two.patch (absorbed in widget_kit-1.1" in done.out


def test_a_comment_goes_with_the_patch_that_it_is_above(tmp_path: Path) -> None:
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": A, "c.py": C}, "1.1": {"a.py": A, "c.py": C1}},
        [("one", {"a.py": A1}), ("two", {"c.py": C1}), ("three", {"b.py": B})],
    )
    (small.series / "series").write_text(
        "# The series.\n\n# Of one.\n0001-one.patch # first\n# Of two.\n0002-two.patch\n"
        "# Of three.\n0003-three.patch\n# The end.\n"
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new", "--json")
    assert done.facts["absorbed"] == ["one/0002-two.patch"]
    assert (tmp_path / "new/series").read_text() == (
        "# The series.\n\n# Of one.\n0001-one.patch # first\n"
        "# Of three.\n0003-three.patch\n# The end.\n"
    )


def test_a_deletion_of_what_upstream_changed(tmp_path: Path) -> None:
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": A, "c.py": C}, "1.1": {"a.py": A, "c.py": C1}},
        [("one", {"c.py": None})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 3
    assert "remove it from conflicts/ to remove it in the new source, too" in done.out
    (tmp_path / "new.port/conflicts/src/widget/c.py").unlink()
    assert call("port", "--continue", "-o", tmp_path / "new").code == 0
    assert small.made(tmp_path / "new", "1.1") == {"src/widget/c.py": None}


def test_a_conflict_taken_as_upstream_has_it_leaves_the_patch_empty(
    small: Small, tmp_path: Path
) -> None:
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    conflict.write_text(A.replace("two = one * 2", "two = one * 4"))
    done = call("port", "--continue", "-o", tmp_path / "new", "--json")
    assert done.facts["steps"][1]["patches"][0]["outcome"] == "empty"
    assert len(done.facts["patches"]) == 3
    assert done.facts["absorbed"] == ["one/0003-three-a-value-that-upstream-will-have.patch"]


def test_what_is_next_makes_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": A, "c.py": C}, "1.1": {"a.py": "X = 1\n" + A, "c.py": C1}},
        [("one", {"c.py": C1}), ("two", {"a.py": A1})],
    )
    (small.series / "README.md").write_text("# The series of 1.0\n")
    done = small.port("--series", "one", "--to", "1.1")
    assert done.code == 0, done.err
    _, told = done.out.split("1 patch\n")
    wheels = f"--wheel {small.wheel('1.0')} --wheel {small.wheel('1.1')}"
    assert told.splitlines() == [
        "  left out: 0001-one.patch (absorbed in widget_kit-1.1-py3-none-any.whl)",
        f"  next: correct README.md: copied from {small.series}",
        f"  next: add its target to {small.catalog} (the next port does it with --write):",
        "    [[target]]",
        '    name = "v1.1"',
        '    upstream = "widget"',
        '    series = "v1.1"',
        '    release = { version = "1.1", tag = "v1.1" }',
        '    absorbed = ["one/0001-one.patch"]',
        f"  next: `pkgtools lock --target v1.1 {wheels} --catalog {small.catalog}`",
    ]
    with small.catalog.open("a") as catalog:
        catalog.writelines(f"{line[4:]}\n" for line in told.splitlines() if line[:4] == "    ")
    wheel = "--wheel", small.wheel("1.1")
    locked = call("lock", "--catalog", small.catalog, "--target", "v1.1", *wheel)
    assert locked.code == 0, locked.err

    monkeypatch.chdir(small.series.parent)
    beside = small.port("--series", "one", "--to", "1.1", "-o", "../new", "--json")
    assert beside.facts["copied"] == ["README.md"]
    beside = small.port("--series", "one", "--to", "1.1", "-o", "../next")
    assert f"into {small.series.parent}\n" in beside.out
    assert 'series = "next"' in beside.out

    mine = tmp_path / "mine"  # no target can name its patches
    shutil.copytree(small.series, mine)
    own = ("--series", mine, "--from", "1.0", "--to", "1.1", "-o", tmp_path / "of mine")
    done = small.port(*own, "--json")
    assert (done.facts["dropped"], done.facts["absorbed"]) == (["0001-one.patch"], [])


@pytest.mark.parametrize(
    "words",
    [
        ("port", "--to", "1.1"),
        ("export", "-o", "x.diff"),
        ("drop", "0001-one.patch"),
        ("reorder", "0001-one.patch", "--before", "0002-two.patch"),
    ],
)
def test_a_series_without_patches_is_named(
    words: tuple[str, ...], small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `init` makes one: nothing of it is absorbed, and an empty diff is none for git."""
    monkeypatch.chdir(small.root)
    for patch in small.series.glob("*.patch"):
        patch.unlink()
    (small.series / "series").write_text("# later\n")
    wheels = ("--wheel", small.wheel("1.0"), "--wheel", small.wheel("1.1"))
    done = call(*words, "--series", "one", "--catalog", small.catalog, *wheels)
    assert (done.code, f"error: {small.series} has no patches yet" in done.err) == (2, True)
    assert "`pkgtools new NAME --series one -m TEXT" in done.err
    assert not Path("x.diff").exists()


def test_the_target_is_written(small: Small) -> None:
    before = small.catalog.read_text()
    assert small.port("--series", "one", "--to", "1.2", "--write").code == 3
    assert small.catalog.read_text() == before
    new = small.series.with_name("v1.2")
    conflict = new.with_name("v1.2.port") / "conflicts" / "src" / "widget" / "a.py"
    conflict.write_text(A.replace("two = one * 2", "two = one * 7"))
    done = call("port", "--continue", "--write", "-o", new)
    assert done.code == 0, done.err
    assert f"added its target v1.2 to {small.catalog}\n" in done.out
    assert "  next: `pkgtools lock --target v1.2`" in done.out
    assert small.catalog.read_text().startswith(before + "\n[[target]]\n")
    wheel = "--wheel", small.wheel("1.2")
    locked = call("lock", "--catalog", small.catalog, "--target", "v1.2", *wheel)
    assert locked.code == 0, locked.err


def test_a_target_that_cannot_be_written_is_refused_first(small: Small, tmp_path: Path) -> None:
    before = snapshot(small.root)
    taken = small.port("--series", "one", "--to", "1.1", "-o", small.series / "one", "--write")
    assert (taken.code, "has a target of that name" in taken.err) == (2, True)
    outside = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new", "--write")
    assert (outside.code, "it is outside" in outside.err) == (2, True)
    assert snapshot(small.root) == before
    assert not (tmp_path / "new").exists()


def test_a_taken_output_is_refused_before_a_source_is_looked_for(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    assert small.port(*words).code == 3
    monkeypatch.setattr(
        "pkgtools.port.route.released_versions", lambda _: pytest.fail("asked the index")
    )
    waiting = small.port(*words)
    assert (waiting.code, "the port in this folder is not finished" in waiting.err) == (2, True)
    assert f"pkgtools port --continue -o {tmp_path / 'new'}" in waiting.err
    taken = small.series.with_name("v1.2")
    shutil.copytree(small.series, taken)
    existing = small.port(*words[:-2])
    assert (existing.code, f"{taken} exists already" in existing.err) == (2, True)
    itself = small.port(*words[:-1], small.series)
    assert (itself.code, "the series is for 1.2 already" in itself.err) == (2, True)


def test_a_port_that_leaves_nothing_says_so(tmp_path: Path) -> None:
    small = make_small(
        tmp_path / "small", {"1.0": {"c.py": C}, "1.1": {"c.py": C1}}, [("one", {"c.py": C1})]
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 0
    assert ".whl)\nevery patch is absorbed or empty" in done.out
    assert "next:" not in done.out
    assert not (tmp_path / "new").exists()


def test_later_patches_wait_for_the_file(tmp_path: Path) -> None:
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": A}, "1.1": {"a.py": A.replace("one * 2", "one * 4")}},
        [("one", {"a.py": A1}), ("two", {"a.py": "X = 1\n" + A1})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new", "--json")
    outcomes = [p["outcome"] for p in done.facts["steps"][0]["patches"]]
    assert outcomes == ["conflict", "blocked"]
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    conflict.write_text(A1)
    assert call("port", "--continue", "-o", tmp_path / "new").code == 0
    assert small.made(tmp_path / "new", "1.1")["src/widget/a.py"] == ("X = 1\n" + A1).encode()


def test_abort_leaves_nothing(small: Small, tmp_path: Path) -> None:
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    assert call("port", "--abort", "-o", tmp_path / "new").code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small"]
    assert call("port", "--abort", "-o", tmp_path / "new").code == 2


def test_an_answer_that_is_not_a_file_can_be_corrected(small: Small, tmp_path: Path) -> None:
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    marked = conflict.read_text()
    conflict.unlink()
    conflict.mkdir()
    assert (
        "a.py: it is not a regular file" in call("port", "--continue", "-o", tmp_path / "new").err
    )
    conflict.rmdir()
    conflict.symlink_to("b.py")
    assert call("port", "--continue", "-o", tmp_path / "new").code == 3
    conflict.unlink()
    # Neither side removes it: what is not there is no answer.
    assert call("port", "--continue", "-o", tmp_path / "new").code == 3
    assert conflict.read_text() == marked
    conflict.write_text(A1)
    assert call("port", "--continue", "-o", tmp_path / "new").code == 0
    assert small.made(tmp_path / "new", "1.2")["src/widget/a.py"] == A1.encode()


def test_an_answer_without_text_or_with_other_line_ends(small: Small, tmp_path: Path) -> None:
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    marked = conflict.read_text()
    conflict.write_text("")  # as an editor leaves it on a full disk
    assert call("port", "--continue", "-o", tmp_path / "new").code == 3
    assert conflict.read_text() == marked
    conflict.write_bytes(A1.replace("\n", "\r\n").encode())
    done = call("port", "--continue", "-o", tmp_path / "new")
    assert done.code == 3
    assert "a.py: its lines end with CRLF, and those of both sides with LF" in done.err
    conflict.write_text(A1)
    assert call("port", "--continue", "-o", tmp_path / "new").code == 0


def test_an_answer_with_a_part_of_the_markers(tmp_path: Path) -> None:
    text, heading = "one\ntwo\nthree\n", "=======\n"
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.txt": heading + text}, "1.1": {"a.txt": heading + text.replace("two", "2")}},
        [("one", {"a.txt": heading + text.replace("two", "zwei")})],
    )
    assert small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new").code == 3
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.txt"
    answer = text.replace("two", "<<<<<<<\nzwei\n=======\n2\n>>>>>>>")
    for broken in (answer, heading * 3 + text, heading + text + "\0"):
        conflict.write_text(broken)
        assert call("port", "--continue", "-o", tmp_path / "new").code == 3
    conflict.write_text(heading * 2 + text)
    assert call("port", "--continue", "-o", tmp_path / "new").code == 0


def test_an_answer_that_does_not_compile_is_refused(small: Small, tmp_path: Path) -> None:
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    for broken in (A.replace("    return", "  return"), A + "return 1\n"):
        conflict.write_text(broken)
        done = call("port", "--continue", "-o", tmp_path / "new")
        assert done.code == 3
        assert "do not compile" in done.err
        assert "src/widget/a.py: line " in done.err
        assert conflict.read_text() == broken
    conflict.write_text(A1)
    assert call("port", "--continue", "-o", tmp_path / "new").code == 0


def test_a_file_that_did_not_compile_before_needs_not_compile_now(tmp_path: Path) -> None:
    old = A + "print 1\n"
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": old}, "1.1": {"a.py": old.replace("one * 2", "one * 4")}},
        [("one", {"a.py": old.replace("one * 2", "one * 3")})],
    )
    assert small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new").code == 3
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    answer = old.replace("one * 2", "one * 5")
    conflict.write_text(answer)
    assert call("port", "--continue", "-o", tmp_path / "new").code == 0
    assert small.made(tmp_path / "new", "1.1") == {"src/widget/a.py": answer.encode()}


LONG = """\
def second(hidden, residual, scale):
    total = hidden + residual
    for step in range(10):
        total = total * scale + step
    total = total - 1
    if total > 100:
        total = 100
    return total
"""


def test_a_moved_definition_that_has_the_change_already(tmp_path: Path) -> None:
    """Its file has no change of its own: none is written for it."""
    first = "import math\n\n\ndef first(a):\n    return math.floor(a)\n\n\n"
    changed = LONG.replace("total - 1", "total - 2")
    small = make_small(
        tmp_path / "small",
        {
            "1.0": {"a.py": first + LONG},
            "1.1": {
                "a.py": first.replace("floor", "trunc") + "from widget.b import second\n",
                "b.py": '"""Moved."""\n\n\n' + changed,
            },
        },
        [("one", {"a.py": first.replace("floor", "ceil") + changed})],
    )
    assert small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new").code == 3
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    conflict.write_text(first.replace("floor", "trunc") + "from widget.b import second\n")
    done = call("port", "--continue", "-o", tmp_path / "new")
    assert done.code == 0, done.err
    assert "every patch is absorbed or empty" in done.out


def test_a_definition_that_moves_into_a_file_that_the_patch_changes_too(tmp_path: Path) -> None:
    """A patch has one change for each file."""
    head = "import math\n\n\ndef first(a):\n    return math.floor(a)\n"
    changed = LONG.replace("total - 1", "total - 2")
    small = make_small(
        tmp_path / "small",
        {
            "1.0": {"a.py": head + "\n\n" + LONG, "b.py": FAR},
            "1.1": {"a.py": head, "b.py": FAR + "\n\n" + LONG},
        },
        [("one", {"a.py": head + "\n\n" + changed, "b.py": FAR1})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 0, done.err
    made = small.made(tmp_path / "new", "1.1")
    assert made == {"src/widget/b.py": (FAR1 + "\n\n" + changed).encode()}


@pytest.mark.parametrize(
    ("now", "code"),
    [
        ("class Batch:\n    def sums(self):\n        self.total_of_lengths = 1\n", 3),
        ("class Batch:\n    def sums(self):\n        self.sum_of_lengths = 1\n", 0),
        ("def make():\n    return Batch(sum_of_lengths=1)\n", 0),  # where, cannot be seen
    ],
)
def test_an_attribute_that_upstream_took_from_the_whole_package(
    tmp_path: Path, now: str, code: int
) -> None:
    batch = "class Batch:\n    def sums(self):\n        self.sum_of_lengths = 1\n"
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": A, "batch.py": batch}, "1.1": {"a.py": "X = 1\n" + A, "batch.py": now}},
        [("one", {"a.py": A.replace("one = x + 1", "one = x.sum_of_lengths + x.shape")})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new", "--json")
    assert done.code == code
    reasons = [h["reason"] for h in done.facts["steps"][0]["patches"][0]["hunks"]]
    lost = "the package defines `sum_of_lengths` nowhere any more"
    assert reasons == [lost if code else None]


_ANSWER = {"step": 1, "patch": "p", "path": "a", "key": "k", "mode": 0o100644}


@pytest.mark.parametrize(
    "changed",
    [None, {"stops": []}, {"stops": ["1.0"]}, {"answers": [{**_ANSWER, "file": "../port.json"}]}],
)
def test_a_damaged_state_says_what_to_do(
    changed: dict[str, object] | None, small: Small, tmp_path: Path
) -> None:
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    state = tmp_path / "new.port" / "port.json"
    state.write_text(
        "{" if changed is None else json.dumps(json.loads(state.read_text()) | changed)
    )
    for option in ("--continue", "--abort"):
        done = call("port", option, "-o", tmp_path / "new")
        assert done.code == 6
        assert f"next: remove {tmp_path / 'new.port'}, and start" in done.err


def test_an_upstream_that_the_catalog_lost(small: Small, tmp_path: Path) -> None:
    assert small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new").code == 3
    state = tmp_path / "new.port" / "port.json"
    facts = json.loads(state.read_text())
    state.write_text(json.dumps({**facts, "upstream": "gone"}))
    done = call("port", "--continue", "-o", tmp_path / "new")
    assert (done.code, "has no upstream gone any more" in done.err) == (2, True)
    assert "--abort" in done.err


def test_the_only_port_needs_no_name(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.catalog.parent)
    done = call(
        "port", "--catalog", "targets.toml", "--series", "one", "--to", "1.2", *_wheels(small)
    )
    assert done.code == 3
    new = small.series.with_name("v1.2.port")
    assert new.is_dir()
    monkeypatch.chdir(tmp_path)
    assert call("port", "--continue", "--catalog", small.catalog).code == 3
    assert call("port", "--abort", "--catalog", small.catalog).code == 0
    assert not new.exists()
    assert call("port", "--abort", "--catalog", small.catalog).code == 2


def _wheels(small: Small) -> list[str | Path]:
    return [w for path in sorted((small.root / "wheels").iterdir()) for w in ("--wheel", path)]


def test_an_answer_to_another_question_is_asked_again(small: Small, tmp_path: Path) -> None:
    """The answers belong to the sources: with another patch below, the person looks again."""
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    conflict = tmp_path / "new.port" / "conflicts" / "src" / "widget" / "a.py"
    conflict.write_text(A1)
    patch = next(small.series.glob("0001-*.patch"))
    patch.write_bytes(patch.read_bytes().replace(b"one * 3", b"one * 5"))
    done = call("port", "--continue", "-o", tmp_path / "new")
    assert done.code == 3
    assert "one * 5" in conflict.read_text()


def _ends(small: Small, tmp_path: Path, kind: str) -> list[str | Path]:
    """Name both ends of a port as releases, trees, installed packages or commits."""
    if kind == "commits":
        ends: list[str | Path] = [small.commits["1.0"], small.commits["1.1"]]
    elif kind == "wheels":
        ends = ["1.0", "1.1"]
    else:
        ends = [tmp_path / "from", tmp_path / "to"]
        for where, version in zip(ends, ("1.0", "1.1"), strict=True):
            if kind == "trees":
                git(
                    small.repository, "worktree", "add", "--quiet", "--detach", where, f"v{version}"
                )
            else:
                with zipfile.ZipFile(small.wheel(version)) as wheel:
                    wheel.extractall(where)
    return ["--from", ends[0], "--to", ends[1], "--git", small.repository]


@pytest.mark.parametrize("kind", ["wheels", "trees", "installed", "commits"])
def test_files_that_moved_are_followed(tmp_path: Path, kind: str) -> None:
    long = A + FAR
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": long, "x.py": C}, "1.1": {"deep/moved.py": long + "END = 1\n", "x.py": C}},
        [("one", {"a.py": long.replace("one * 2", "one * 3")})],
    )
    ends = _ends(small, tmp_path, kind)
    done = small.port("--series", "one", *ends, "-o", tmp_path / "new", "--json")
    assert done.code == 0, done.err
    (hunk,) = done.facts["steps"][0]["patches"][0]["hunks"]
    assert (hunk["outcome"], hunk["rules"]) == ("moved", ["moved-file"])
    made = small.made(tmp_path / "new", "1.1")
    assert made == {
        "src/widget/deep/moved.py": (long + "END = 1\n").replace("one * 2", "one * 3").encode()
    }


def test_a_conflict_in_a_file_that_moved_says_why(tmp_path: Path) -> None:
    long = A + FAR
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": long}, "1.1": {"moved.py": long.replace("one * 2", "one * 4")}},
        [("one", {"a.py": long.replace("one * 2", "one * 3")})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 3
    assert "a.py:3: conflict: both change the same" in done.out


SPLIT = """\
import math


class One:
    def start(self, x):
        y = math.floor(x)
        return self.end(y + 1)

    def end(self, y):
        return [y, y * 2, y * 3]


class Two:
    def step(self, z):
        total = sum(z)
        return self.stop(total - 1)

    def stop(self, total):
        return {total: self}


class Three:
    def more(self, w):
        for n in range(w):
            if n > 3:
                return n
        while w:
            w -= 1
            if w == 5:
                break
        return None
"""


@pytest.mark.parametrize(
    ("two", "asked"),
    [
        (lambda text: text, None),
        (lambda text: text.replace("class Two", "class Second"), None),
        (lambda text: text.replace("total - 1", "total - 3"), "is in src/widget/one.py now"),
        (
            lambda text: text.replace("total", "n").replace("def s", "def m"),
            "is in src/widget/one.py now",
        ),
    ],
    ids=["moved", "renamed", "changed by both", "rewritten"],
)
def test_a_file_that_upstream_splits_is_followed(
    two: Callable[[str], str], asked: str | None, tmp_path: Path
) -> None:
    head, one, last, third = re.split(r"^(?=class )", SPLIT, flags=re.MULTILINE)
    patched = SPLIT.replace("y + 1", "math.ceil(y)").replace("total - 1", "total - 2")
    split = {
        "one.py": head + one.rstrip() + "\n",
        "two.py": two(last.rstrip() + "\n"),
        "c.py": third,
    }
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": SPLIT, "b.py": "X = 1\n"}, "1.1": {"b.py": "X = 1\n", **split}},
        [("one", {"a.py": patched})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == (3 if asked else 0), done.out
    if asked:
        assert f"upstream removed the file that the patch changes; a part of it {asked}" in done.out
        return
    (patch,) = (tmp_path / "new").glob("*.patch")
    assert {line for line in patch.read_text().splitlines() if re.match(r"[+-]\s", line)} == {
        *("-        return self.end(y + 1)", "+        return self.end(math.ceil(y))"),
        *("-        return self.stop(total - 1)", "+        return self.stop(total - 2)"),
    }
    assert "one.py" in patch.read_text()
    assert "two.py" in patch.read_text()


@pytest.mark.parametrize("kind", ["wheels", "trees", "installed", "commits"])
def test_a_definition_that_moved_to_another_file_is_followed(tmp_path: Path, kind: str) -> None:
    small = make_small(
        tmp_path / "small",
        {
            "1.0": {"a.py": f"{A}\n\n{FAR}", "b.py": C},
            "1.1": {"a.py": FAR, "b.py": f"{C}\n\n{A}"},
        },
        [("one", {"a.py": f"{A1}\n\n{FAR}"})],
    )
    ends = _ends(small, tmp_path, kind)
    done = small.port("--series", "one", *ends, "-o", tmp_path / "new", "--json")
    assert done.code == 0, done.out
    (hunk,) = done.facts["steps"][0]["patches"][0]["hunks"]
    assert hunk["rules"] == ["moved-definition"]
    assert small.made(tmp_path / "new", "1.1") == {"src/widget/b.py": f"{C}\n\n{A1}".encode()}


@pytest.mark.parametrize(
    ("imported", "there", "made"),
    [
        ("import math", "import zlib", "import math\nimport zlib"),
        ("from widget.c import VALUE as math", "from widget.c import OTHER", None),
        ("import thirdparty as math", "import zlib", ""),
    ],
)
def test_imports_follow_a_definition_that_moved(
    imported: str, there: str, made: str | None, tmp_path: Path
) -> None:
    """Where the file to which it went has no such import, and it is known to work there."""
    ours = A.replace("two = one * 2", "two = math.floor(one)")
    names = "VALUE = OTHER = 1\n"
    small = make_small(
        tmp_path / "small",
        {
            "1.0": {
                "a.py": f"import re\n\n\n{A}\n\n{FAR}",
                "b.py": C,
                "c.py": names,
            },
            "1.1": {
                "a.py": f"import re\n\n\n{FAR}",
                "b.py": f"{there}\n\n\n{A}",
                "c.py": names,
            },
        },
        [("one", {"a.py": f"{imported}\nimport re\n\n\n{ours}\n\n{FAR}"})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == (3 if made == "" else 0), done.out
    if made != "":
        head = made or "from widget.c import OTHER, VALUE as math"
        text = small.made(tmp_path / "new", "1.1")["src/widget/b.py"]
        assert text == f"{head}\n\n\n{ours}".encode()


def test_an_import_that_is_gone_is_a_conflict(tmp_path: Path) -> None:
    used = "import os\n\n\nX = os.sep\n"
    small = make_small(
        tmp_path / "small",
        {
            "1.0": {"a.py": used, "b.py": C},
            "1.1": {"a.py": "# Later.\n\n\n" + used, "b.py": "OTHER = 1\n"},
        },
        [("one", {"a.py": used.replace("import os\n", "import os\nfrom widget.b import VALUE\n")})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new", "--json")
    assert done.code == 3
    (hunk,) = done.facts["steps"][0]["patches"][0]["hunks"]
    assert hunk["reason"] == "widget.b has no VALUE any more"


def test_an_import_is_looked_up_where_the_file_itself_is_unchanged(tmp_path: Path) -> None:
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": A, "b.py": C}, "1.1": {"a.py": A, "c.py": FAR}},
        [("one", {"a.py": "from widget.b import VALUE\n\n\n" + A + "\n\nX = VALUE\n"})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new", "--json")
    assert done.code == 3
    reasons = {h["reason"] for h in done.facts["steps"][0]["patches"][0]["hunks"]}
    assert "there is no module widget.b any more" in reasons


def test_commit_by_commit_where_git_has_both_ends(small: Small, tmp_path: Path) -> None:
    done = small.port(
        *("--series", small.series, "--from", small.commits["1.0"], "--to", small.commits["1.2"]),
        *("--git", small.repository, "-o", tmp_path / "new", "--json"),
    )
    assert done.code == 3
    assert [s["theirs"][-12:] for s in done.facts["steps"]] == [
        small.commits[v][:12] for v in ("1.1", "1.2")
    ]


def test_commits_of_a_file_that_moved_are_on_the_way(tmp_path: Path) -> None:
    long = A + FAR
    small = make_small(
        tmp_path / "small",
        {
            "1.0": {"a.py": long},
            "1.1": {"moved.py": long},
            "1.2": {"moved.py": "X = 1\n" + long},
            "1.3": {"moved.py": "X = 1\n" + long, "other.py": C},
            "1.4": {"moved.py": "X = 1\n" + long + "END = 1\n", "other.py": C},
        },
        [("one", {"a.py": long.replace("one * 2", "one * 3")})],
    )
    ends: list[str | Path] = ["--from", small.commits["1.0"], "--to", small.commits["1.4"]]
    ends += ["--git", small.repository, "-o", tmp_path / "new", "--json"]
    done = small.port("--series", small.series, *ends)
    assert done.code == 0, done.err
    ways = [step["theirs"][-12:] for step in done.facts["steps"]]
    assert ways == [small.commits[v][:12] for v in ("1.1", "1.2", "1.4")]


def test_the_newest_release(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    done = small.port("--series", "one", "--to", "latest", "--json")
    assert done.facts["output"] == str(small.series.with_name("v1.2"))
    assert done.err.count("the package index did not answer: going by what is at hand") == 1
    call("port", "--abort", "-o", small.series.with_name("v1.2"))
    known = ["1.1", "1.0", "1.3rc1"]
    monkeypatch.setattr("pkgtools.port.route.released_versions", lambda _: known)
    done = small.port("--to", "latest", "--json")
    assert done.facts["output"] == str(small.series.with_name("v1.2"))
    assert "did not answer" not in done.err
    assert "the series is that of one" in done.err


def test_via_names_the_way(small: Small, tmp_path: Path) -> None:
    done = small.port(
        *("--series", "one", "--to", "1.2", "--via", "1.2", "-o", tmp_path / "new", "--json")
    )
    assert len(done.facts["steps"]) == 1


@pytest.mark.parametrize(
    ("words", "message", "remedy"),
    [
        (["--series", "one"], "needs --to", "--to latest for the newest"),
        (["--continue", "--abort"], "stand alone", "give one of them"),
        (["--write", "--abort"], "stand alone", "give one of them"),
        (["--continue", "--via", "1.1"], "stand alone", "give one of them"),
        (["--continue", "--git", "."], "stand alone", "give one of them"),
        (["--abort", "--wheel", "."], "stand alone", "give one of them"),
    ],
)
def test_a_usage_error_says_what_to_do(
    small: Small, tmp_path: Path, words: list[str], message: str, remedy: str
) -> None:
    small.port("--series", "one", "--to", "1.2", "-o", tmp_path / "new")
    done = call("port", "--catalog", small.catalog, "-o", tmp_path / "new", *words, "--json")
    assert done.code == 2
    assert message in done.facts["error"]["message"]
    assert remedy in done.facts["error"]["remedy"]
    assert (tmp_path / "new.port").is_dir()


def test_what_is_there_is_never_overwritten(small: Small, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_text("mine")
    assert small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new").code == 2
    assert (tmp_path / "new" / "mine").read_text() == "mine"


def test_a_series_that_does_not_fit_its_source(small: Small, tmp_path: Path) -> None:
    done = small.port("--series", "one", "--from", "1.2", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 3
    assert "does not apply" in done.err
    assert "next: give the source that it is for with --from" in done.err
    assert "`pkgtools port" not in done.err  # without --to, it is refused


_KILLED = """
import os, signal, sys
from pkgtools.authoring import folder
left = int(sys.argv[1])
real = folder.write_new
def write_new(*arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*arguments)
folder.write_new = write_new
from pathlib import Path
folder.write_folder(Path(sys.argv[2]), {f"f{n}": b"x" for n in range(4)})
"""


@pytest.mark.parametrize("writes", range(5))
def test_killed_while_writing_there_is_a_whole_folder_or_none(tmp_path: Path, writes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(writes), str(tmp_path / "new")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == (0 if writes >= 4 else -signal.SIGKILL)
    assert (tmp_path / "new").exists() is (writes >= 4)
