"""`pkgtools apply`: once, twice, over an older series, and never over what it does not know."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git, installed, lock_all, write_files
from scenarios import apply, apply_changed, make_tree, reverse
from trees import contents, differing, leftovers, record_problems, snapshot, timeless

from pkgtools.source.receipt import load_receipt

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project

LAYOUTS = ["site", "checkout", "archive"]


def _apply(project: Project, root: Path, *more: str | Path) -> Result:
    return call("apply", "--tree", root, "--catalog", project.targets, *more)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_series_makes(layout: str, project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, layout, tmp_path)
    done = _apply(project, tree.root, "--target", "w-1.0", "--json")
    assert done.code == 0
    before, after = project.releases["1.0"], project.patched["v1.0"]
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    assert done.facts == {
        "tree": tree.label,
        "path": str(tree.root),
        "target": "w-1.0",
        "revisions": ["1.0"],
        "changed": changed,
        "replaced": None,
        "has_receipt": True,
        "recovered": None,
        "other_version": None,
        "requires": [],
    }
    expected = after if tree.is_checkout else installed(after)
    files = contents(tree.root)
    assert {path: blob for path, blob in files.items() if path in expected} == expected
    extra = {path for path in files.keys() - expected.keys() if "dist-info" not in path}
    assert {path for path in extra if not path.endswith(".pyc")} <= {
        f"{tree.home.relative_to(tree.root)}/pkgtools.json"
    }
    assert not (tree.root / tree.name("src/widget/legacy")).exists()  # empty, so gone
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_second_time_does_nothing(layout: str, project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, layout, tmp_path)
    _apply(project, tree.root, "--target", "w-1.0")
    before = snapshot(tmp_path)
    done = _apply(project, tree.root, "--target", "w-1.0")
    assert done.code == 0
    assert done.out == f"{tree.label} is patched with w-1.0 already: nothing to do\n"
    assert snapshot(tmp_path) == before


def test_the_default_target_and_aliases(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path / "site", "1.1")
    done = _apply(project, tmp_path / "site", "--json")
    assert done.facts["target"] == "w-1.1"
    for name in ("w-dev", "w-dev-base", "w-dev-short"):
        root = project.write_archive(tmp_path / name, "dev")
        done = _apply(project, root, "--target", name, "--json")
        assert done.facts["target"] == "w-dev"
        assert set(done.facts["revisions"]) == {project.commits["dev"], project.commits["dev-base"]}
        files = contents(root)
        del files[".pkgtools/pkgtools.json"]
        assert files == project.patched["dev"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_changed_series_replaces_the_older_one(
    layout: str, project: Project, tmp_path: Path
) -> None:
    """Reversed and applied in one transaction: files that only the older one touched come back."""
    tree = make_tree(project, layout, tmp_path)
    old = snapshot(tmp_path)
    apply(project, tree)
    was = load_receipt(tree.home)
    done = call(
        "apply", "--target", "w-1.0", "--tree", tree.root, "--catalog", project.changed_targets
    )
    assert done.code == 0
    assert was is not None
    assert f"replaced the older series {was.series[:19]}" in done.out
    expected = project.patched["changed"]
    files = contents(tree.root)
    for path in {*project.releases["1.0"], *expected, *project.patched["v1.0"]}:
        if tree.is_checkout or path.startswith("src/"):
            assert files.get(tree.name(path)) == expected.get(path), path
    if tree.dist_info is not None:
        assert record_problems(tree.dist_info) == []
    again = snapshot(tmp_path)
    assert apply_changed(project, tree).changed == ()
    assert snapshot(tmp_path) == again
    reverse(project, tree)  # to what was there before the older one
    assert differing(timeless(old), timeless(snapshot(tmp_path))) == []
    core = tree.name("src/widget/core.py")
    assert snapshot(tree.root)[core].mtime_ns == old[f"tree/{core}"].mtime_ns


def test_replacing_is_the_same_as_reversing_and_applying(project: Project, tmp_path: Path) -> None:
    trees = []
    for name in ("one", "two"):
        project.install(tmp_path / name)
        trees.append(project.tree(tmp_path / name))
        apply(project, trees[-1])
    apply_changed(project, trees[0])
    reverse(project, trees[1])
    apply_changed(project, trees[1])
    one, two = (timeless(snapshot(tree.root)) for tree in trees)
    assert differing(one, two) == []


def test_an_older_series_whose_files_were_edited_is_not_replaced(
    project: Project, tmp_path: Path
) -> None:
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    (tree.root / "widget/tool.sh").write_bytes(b"mine\n")
    before = snapshot(tmp_path)
    done = call(
        "apply", "--target", "w-1.0", "--tree", tree.root, "--catalog", project.changed_targets
    )
    assert done.code == 5
    assert "edited since w-1.0 was applied, so nothing is touched: src/widget/tool.sh" in done.err
    assert snapshot(tmp_path) == before


def test_another_release_than_the_targets(project: Project, tmp_path: Path) -> None:
    project.install(tmp_path / "site", "1.1")
    before = snapshot(tmp_path)
    done = _apply(project, tmp_path / "site", "--target", "w-1.0", "--json")
    assert done.code == 3
    error = done.facts["error"]
    assert error["code"] == "does-not-apply"
    assert error["remedy"].startswith("use `pkgtools apply --target w-1.1 ")
    assert error["details"]["nearest"]["target"] == "w-1.1"
    assert snapshot(tmp_path) == before


def test_a_patched_tree_of_another_release(project: Project, tmp_path: Path) -> None:
    """The receipt's series is undone in thought only, and the tree is refused as it is."""
    project.install(tmp_path / "site", "1.1")
    _apply(project, tmp_path / "site", "--target", "w-1.1")
    before = snapshot(tmp_path)
    done = _apply(project, tmp_path / "site", "--target", "w-1.0")
    assert done.code == 3
    assert "use `pkgtools apply --target w-1.1 " in done.err
    assert snapshot(tmp_path) == before


def test_targets_that_share_a_series_are_not_taken_for_each_other(
    project: Project, tmp_path: Path
) -> None:
    """The series is in the tree, but the tree is another revision."""
    targets = project.copy_catalog(tmp_path / "catalog")
    folder = targets.parent / "patches/widget/v1.0"
    (folder / "series").write_text("0001-answer.patch\n")
    patch = folder / "0001-answer.patch"
    diff = "--- a/src/widget/core.py\n+++ b/src/widget/core.py\n@@ -6,4 +6,4 @@\n"
    diff += ' def scale(values, factor):\n     """Return the scaled sum."""\n-    total = 0\n'
    diff += "+    total = 1\n     for value in values:\n"
    for path in folder.glob("000[123]-*"):
        path.unlink()
    patch.write_text(diff)
    text = targets.read_text().replace('series = "v1.1"', 'series = "v1.0"')
    targets.write_text(text)
    lock_all(targets, project.repository, project)
    project.install(tmp_path / "site", "1.0")
    arguments = ("--tree", tmp_path / "site", "--catalog", targets)
    assert call("apply", "--target", "w-1.0", *arguments).code == 0
    before = snapshot(tmp_path)
    done = call("apply", "--target", "w-1.1", *arguments)
    assert done.code == 3
    assert "use `pkgtools apply --target w-1.0 " in done.err
    assert snapshot(tmp_path) == before


def test_a_tree_that_was_patched_by_other_means(project: Project, tmp_path: Path) -> None:
    """Its files are right, so there is nothing to do; that there is no receipt is said."""
    root = project.write_checkout(tmp_path / "tree")
    for patch in project.catalog().target("w-1.0").series.patches:
        git(root, "apply", project.targets.parent / "patches/widget/v1.0" / patch.name)
    before = snapshot(tmp_path)
    done = _apply(project, root, "--target", "w-1.0")
    assert done.code == 0
    assert "without a receipt" in done.out
    assert snapshot(tmp_path) == before


def test_a_receipt_whose_files_were_checked_out_again_is_void(
    project: Project, tmp_path: Path
) -> None:
    root = project.write_checkout(tmp_path / "tree")
    tree = project.tree(root)
    apply(project, tree)
    git(root, "checkout", "--quiet", "--", ".")
    shutil.rmtree(root / "src/widget/extra")
    done = _apply(project, root, "--target", "w-1.0")
    assert done.code == 0
    assert "applied w-1.0" in done.out
    assert contents(root) == project.patched["v1.0"] | {
        ".git/pkgtools/pkgtools.json": contents(root)[".git/pkgtools/pkgtools.json"]
    }
    reverse(project, tree)
    assert contents(root) == project.releases["1.0"]


@pytest.mark.parametrize("receipt", [True, False])
@pytest.mark.parametrize("verb", ["apply", "reverse"])
def test_the_added_files_that_git_leaves_are_the_series_own(
    project: Project, tmp_path: Path, verb: str, *, receipt: bool
) -> None:
    """`git checkout --force`, `git reset --hard` and `git stash` leave what git does not track."""
    root = project.write_checkout(tmp_path / "tree")
    apply(project, project.tree(root))
    git(root, "reset", "--quiet", "--hard")
    if not receipt:
        shutil.rmtree(root / ".git/pkgtools")
    arguments = ("--tree", root, "--catalog", project.targets)
    state = call("status", *arguments)
    assert (state.code, "patched  src/widget/extra/deep/new.py" in state.out) == (4, True)
    assert ("put back since it was patched: src/widget/core.py" in state.out) is receipt
    found = call("verify", *arguments)
    assert (found.code, "next: apply it again: `pkgtools apply" in found.err) == (4, True)
    mine = root / "src/widget/extra/deep/new.py"
    kept = mine.read_bytes()
    mine.write_bytes(kept + b"# mine\n")
    assert _apply(project, root, "--target", "w-1.0").code in (4, 5)
    assert mine.read_bytes() == kept + b"# mine\n"
    mine.write_bytes(kept)
    if verb == "reverse" and not receipt:
        assert call("reverse", *arguments).code == 4
        return
    assert call(verb, *arguments).code == 0
    after = project.patched["v1.0"] if verb == "apply" else project.releases["1.0"]
    files = {name: blob for name, blob in contents(root).items() if ".git/" not in name}
    assert files == after
    assert call("reverse", *arguments).code == 0
    assert contents(root) == project.releases["1.0"]


def test_a_half_patched_tree_is_refused(project: Project, tmp_path: Path) -> None:
    root = project.write_archive(tmp_path / "tree")
    write_files(root, {k: v for k, v in project.patched["v1.0"].items() if "answer" in k})
    before = snapshot(tmp_path)
    done = _apply(project, root, "--target", "w-1.0", "--json")
    assert (done.code, done.facts["error"]["code"]) == (4, "partial")
    assert done.facts["error"]["remedy"]
    assert snapshot(tmp_path) == before


def test_crlf_is_refused_as_what_it_is(project: Project, tmp_path: Path) -> None:
    """A checkout with core.autocrlf: converted files are not the revision's."""
    root = project.write_archive(tmp_path / "tree")
    for path in root.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    before = snapshot(tmp_path)
    done = _apply(project, root, "--target", "w-1.0")
    assert done.code == 5
    assert "CRLF line ends" in done.err
    assert "core.autocrlf" in done.err
    assert snapshot(tmp_path) == before


def test_a_new_file_in_the_way_is_not_written_over(project: Project, tmp_path: Path) -> None:
    root = project.write_archive(tmp_path / "tree")
    mine = root / "src/widget/extra/deep/new.py"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine\n")
    before = snapshot(tmp_path)
    done = _apply(project, root, "--target", "w-1.0")
    assert done.code == 5
    assert "src/widget/extra/deep/new.py" in done.err
    assert snapshot(tmp_path) == before


def test_other_files_in_a_new_folder_stay(project: Project, tmp_path: Path) -> None:
    root = project.write_archive(tmp_path / "tree")
    for name in ("src/widget/extra/mine.py", "src/widget/legacy/mine.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"mine\n")
    before = snapshot(tmp_path)
    tree = project.tree(root)
    apply(project, tree)
    reverse(project, tree)
    assert snapshot(tmp_path) == before


def test_the_lock_is_held_against_what_the_series_makes(project: Project, tmp_path: Path) -> None:
    """A lock that was edited by hand promises something else: nothing is written."""
    targets = project.copy_catalog(tmp_path / "catalog")
    lock = targets.parent / "patches/widget/v1.0/lock.toml"
    after = project.patched["v1.0"]["src/widget/answer.py"].id
    lock.write_text(lock.read_text().replace(after, "f" * 40))
    project.install(tmp_path / "site")
    before = snapshot(tmp_path)
    done = call("apply", "--target", "w-1.0", "--tree", tmp_path / "site", "--catalog", targets)
    assert done.code == 6
    assert f"{lock} is wrong: the series makes other content of" in done.err
    assert "src/widget/answer.py" in done.err
    assert snapshot(tmp_path) == before
