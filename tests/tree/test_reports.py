"""What went wrong in public, row by row: the trap with the real tool, and what happens here.

Each name is a report on the usual forge, of someone who carries patches on a Python package.
Where it is cheap, the tool that the report used is run first, and seen to do the wrong thing.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from commands import call, run
from crash import fork
from project import (
    PREFIX,
    build_wheel,
    git,
    git_environment,
    installed,
    make_series,
    substitute,
    write_files,
)
from scenarios import apply, make_tree
from trees import contents, leftovers, record_problems, snapshot, uninstall

from pkgtools.blob import Blob
from pkgtools.errors import MalformedError, TreeError
from pkgtools.patch import parse_patch
from pkgtools.plan import Reason, plan_series
from pkgtools.util import files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from project import Project

    from pkgtools.plan import Plan
    from pkgtools.source import Tree

_PATCH = shutil.which("patch")
needs_patch = pytest.mark.skipif(_PATCH is None, reason="patch(1) is not installed")


def _git(where: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments],
        cwd=where,
        env=git_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def _patch(where: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_PATCH or "patch", *arguments], cwd=where, capture_output=True, text=True, check=False
    )


def _patches(project: Project, series: str = "v1.0") -> list[Path]:
    return sorted((project.targets.parent / "patches/widget" / series).glob("*.patch"))


def _apply(project: Project, tree: Tree, target: str = "w-1.0") -> tuple[int, str]:
    """Apply by the command line; return its exit code and what it said."""
    done = call("apply", "--target", target, "--tree", tree.root, "--catalog", project.targets)
    return done.code, done.out + done.err


def _is_patched(project: Project, tree: Tree) -> bool:
    return contents(tree.root / "widget") == {
        name.removeprefix("widget/"): blob
        for name, blob in installed(project.patched["v1.0"]).items()
    }


def _site(project: Project, where: Path, version: str = "1.0") -> Tree:
    project.install(where, version)
    return project.tree(where)


def test_row_01_a_virtual_environment_inside_a_git_checkout(
    project: Project, tmp_path: Path
) -> None:
    """SpecForge#807: `git apply` skips every path, exits with 0, and nothing is patched."""
    git(tmp_path, "init", "--quiet")
    tree = _site(project, tmp_path / ".venv/lib/python3.12/site-packages")
    before = snapshot(tree.root)
    for options in (["--check"], ["-R", "--check"], []):
        for patch in _patches(project):
            assert _git(tree.root, "apply", *options, "-p2", patch).returncode == 0
    assert snapshot(tree.root) == before
    assert _apply(project, tree)[0] == 0
    assert _is_patched(project, tree)


def test_row_02_a_hunk_that_was_edited_by_hand(project: Project, tmp_path: Path) -> None:
    """SpecForge#776: the header's counts are not the body's."""
    targets = project.copy_catalog(tmp_path / "catalog")
    patch = targets.parent / "patches/widget/v1.0/0001-answer-the-right-one.patch"
    lines = patch.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith("@@ -5,7 +5,7 @@"))
    lines[at] = lines[at].replace("+5,7", "+5,9")
    patch.write_text("".join(lines))
    root = project.write_archive(tmp_path / "tree")
    refused = _git(root, "apply", "--check", patch)
    assert "corrupt patch at line" in refused.stderr  # and not what is wrong with it
    before = snapshot(root)
    done = call("apply", "--target", "w-1.0", "--tree", root, "--catalog", targets)
    assert done.code == 6
    assert f"{patch}:{at + 1}: " in done.err
    said = done.err.replace(str(tmp_path), "")
    assert "9 new" in said or "9 lines" in said, said
    assert "7" in said
    assert snapshot(root) == before


@pytest.mark.parametrize("layout", ["site", "checkout", "archive"])
def test_row_02_the_path_prefix_is_the_catalogs_business(
    layout: str, project: Project, tmp_path: Path
) -> None:
    """SpecForge#776: the same patch fits a checkout and an installed package."""
    tree = make_tree(project, layout, tmp_path)
    assert _apply(project, tree)[0] == 0
    files = project.patched["v1.0"]
    for path in project.catalog().target("w-1.0").series.paths:
        blob = tree.read(path)
        assert blob == files.get(path)


def test_row_03_a_users_work_is_never_discarded(project: Project, tmp_path: Path) -> None:
    """TorchSpec#98: the tree is cleaned first, and then the patch turns out to be corrupt."""
    targets = project.copy_catalog(tmp_path / "catalog")
    root = project.write_checkout(tmp_path / "tree")
    (root / "src/widget/other.py").write_bytes(b"# my work of a day\n")
    (root / "notes.txt").write_bytes(b"mine\n")
    mine = snapshot(root)
    done = call("apply", "--target", "w-1.0", "--tree", root, "--catalog", targets)
    assert done.code == 0  # other.py is no file of the series
    assert (root / "src/widget/other.py").read_bytes() == b"# my work of a day\n"
    assert call("reverse", "--tree", root, "--catalog", targets).code == 0
    assert snapshot(root) == mine
    last = targets.parent / "patches/widget/v1.0/0003-legacy-retire-it.patch"
    last.write_bytes(last.read_bytes()[:-300])
    done = call("apply", "--target", "w-1.0", "--tree", root, "--catalog", targets)
    assert done.code == 6
    assert str(last) in done.err
    assert snapshot(root) == mine


@needs_patch
def test_row_04_an_upgrade_leaves_no_file_of_ours(project: Project, tmp_path: Path) -> None:
    """SpecForge#787: pip replaces its own files; what the patch added, and the marker, stay."""
    by_hand = _site(project, tmp_path / "by-hand")
    for patch in _patches(project):
        assert _patch(by_hand.root, "-p2", "-i", patch).returncode == 0
    (by_hand.root / "widget/.patched").touch()
    uninstall(by_hand.root)
    left = list(contents(by_hand.root))
    assert left == ["widget/.patched", "widget/extra/__init__.py", "widget/extra/deep/new.py"]
    ours = _site(project, tmp_path / "ours")
    apply(project, ours)
    assert ours.dist_info is not None
    assert record_problems(ours.dist_info) == []
    uninstall(ours.root)
    assert contents(ours.root) == {}
    upgraded = _site(project, ours.root, "1.1")
    status = call("status", "--tree", upgraded.root, "--catalog", project.targets, "--json")
    assert status.facts["state"] == "pristine"
    assert status.facts["target"] == "w-1.1"


def _planned(patches: Sequence[Path], files: Mapping[str, Blob]) -> Plan:
    return plan_series([parse_patch(p.name, p.read_bytes()) for p in patches], files.get)


def test_row_05_every_hunk_of_a_new_upstream_is_reported(project: Project, tmp_path: Path) -> None:
    """SpecForge#886: which of the hunks still fit is found out one by one, by hand."""
    files = dict(project.releases["1.0"])
    for path, old, new in [
        ("src/widget/core.py", b"    total = 0\n", b"    total = int()\n"),
        ("src/widget/core.py", b"spread {spread(values)}", b"spread: {spread(values)}"),
        ("src/widget/core.py", b"clip(values, limit=LIMIT)", b"clip(values, *, limit=LIMIT)"),
        ("src/widget/answer.py", b"ANSWER = 41", b"ANSWER: int = 41"),
    ]:
        substitute(path, old, new)(files)
    root = tmp_path / "tree"
    write_files(root, files)
    first, second, third = _patches(project)
    named = _git(root, "apply", "--check", first).stderr
    assert named.count("patch failed: src/widget/core.py") == 1  # of two
    done = call(
        "apply", "--target", "w-1.0", "--tree", root, "--catalog", project.targets, "--json"
    )
    assert done.code == 5
    rejections = done.facts["error"]["details"]["rejections"]
    found = [(r["patch"], r["path"], r["hunk"], r["reason"]) for r in rejections]
    assert found == [
        (first.name, "src/widget/answer.py", 1, "no-match"),
        (first.name, "src/widget/core.py", 1, "no-match"),
        (first.name, "src/widget/core.py", 2, "no-match"),
        (third.name, "src/widget/core.py", None, "depends"),
    ]
    near = {(r["path"], r["hunk"]): r["nearest"] for r in rejections if r["nearest"]}
    answer = near["src/widget/answer.py", 1]
    assert answer["line"] == 1
    assert "- ANSWER = 41" in answer["diff"]
    assert "+ ANSWER: int = 41" in answer["diff"]
    assert [near["src/widget/core.py", n]["line"] for n in (1, 2)] == [5, 25]
    assert second.name not in {r["patch"] for r in rejections}  # it still applies


def test_row_06_a_series_is_bound_to_a_revision_by_content(
    project: Project, tmp_path: Path
) -> None:
    """TraceLens#1001: a set named for a release was made on the main branch."""
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text().replace('series = "v1.0"', 'series = "v1.1"', 1)
    targets.write_text(text)
    before = snapshot(tmp_path)
    arguments: list[str | Path] = ["--catalog", targets, "--wheel", project.wheel("1.0")]
    done = call("lock", "--target", "w-1.0", *arguments, "--wheel", project.wheel("1.1"))
    assert done.code == 3
    assert "w-1.0: its series does not apply to widget_kit-1.0" in done.err
    assert "Yet another answer" in done.err  # the line that the release lacks
    assert snapshot(tmp_path) == before
    tree = _site(project, tmp_path / "site")
    code, said = _apply(project, tree, "w-1.1")
    assert code == 3
    assert "use `pkgtools apply --target w-1.0 " in said


def test_row_07_one_file_that_is_there_already_is_no_reason_to_skip_the_rest(
    project: Project, tmp_path: Path
) -> None:
    """Hyperloom#505: a failed check was read as "applied", and the whole set was skipped."""
    tree = _site(project, tmp_path / "site")
    (tree.root / "widget/answer.py").write_bytes(
        installed(project.patched["v1.0"])["widget/answer.py"].data
    )
    before = snapshot(tree.root)
    code, said = _apply(project, tree)
    assert code == 4
    assert "src/widget/answer.py (patched)" in said
    assert "src/widget/core.py (pristine)" in said
    assert snapshot(tree.root) == before
    write_files(tree.root, installed(project.releases["1.0"]))
    assert _apply(project, tree)[0] == 0
    assert _is_patched(project, tree)
    code, said = _apply(project, tree)
    assert (code, "already" in said) == (0, True)  # all of it there: said, and no failure


def test_row_08_a_version_string_decides_nothing(project: Project, tmp_path: Path) -> None:
    """Hyperloom#572: the nearest lower set was chosen by version, on a much newer tree."""
    project.install(tmp_path / "site", "1.1")
    (tmp_path / "site/widget_kit-1.1.dist-info").rename(tmp_path / "site/widget_kit-1.0.dist-info")
    tree = project.tree(tmp_path / "site")
    before = snapshot(tree.root)
    code, said = _apply(project, tree, "w-1.0")
    assert code == 3
    assert "is w-1.1 (1.1), pristine" in said
    assert "next: use `pkgtools apply --target w-1.1 --tree " in said
    assert snapshot(tree.root) == before


@needs_patch
def test_row_09_rejected_hunks_never_pass(project: Project, tmp_path: Path) -> None:
    """dynamo#9522: patch(1)'s exit code 1 means "already applied", and also "rejected"."""
    first = _patches(project)[0]
    applied, conflicting = (project.write_archive(tmp_path / n) for n in ("one", "two"))
    assert _patch(applied, "-p1", "-i", first).returncode == 0
    path = conflicting / "src/widget/core.py"
    path.write_bytes(path.read_bytes().replace(b"total = 0\n", b"total = None\n"))
    codes = [_patch(t, "-N", "-p1", "-i", first).returncode for t in (applied, conflicting)]
    assert codes == [1, 1]  # the same for both
    assert path.with_name("core.py.rej").exists()
    shutil.rmtree(conflicting)
    tree = project.tree(project.write_archive(conflicting))
    path.write_bytes(path.read_bytes().replace(b"total = 0\n", b"total = None\n"))
    before = snapshot(conflicting)
    code, said = _apply(project, tree)
    assert code == 5
    assert "src/widget/core.py" in said
    assert snapshot(conflicting) == before


_TWINS = b"""\
def first(values):
    checked = check(values)
    total = 0
    for value in values:
        total += value
    return total


def second(values):
    checked = check(values)
    total = 0
    for value in values:
        total += value
    return total
"""
_INSERTION = b"""\
diff --git a/twins.py b/twins.py
--- a/twins.py
+++ b/twins.py
@@ -1,5 +1,6 @@
 def third(values):
     checked = check(values)
+    values = sorted(values)
     total = 0
     for value in values:
         total += value
"""


@needs_patch
def test_row_10_no_hunk_lands_in_a_twin(tmp_path: Path) -> None:
    """dynamo#14059: with fuzz, a hunk for a function that is gone lands in another one."""
    (tmp_path / "twins.py").write_bytes(_TWINS)
    (tmp_path / "insertion.patch").write_bytes(_INSERTION)
    done = _patch(tmp_path, "-p1", "-i", "insertion.patch")
    assert done.returncode == 0
    assert "with fuzz" in done.stdout
    assert b"sorted" in (tmp_path / "twins.py").read_bytes()
    plan = plan_series([parse_patch("insertion.patch", _INSERTION)], {"twins.py": Blob(_TWINS)}.get)
    (rejection,) = plan.rejections
    assert rejection.reason is Reason.NO_MATCH
    assert rejection.nearest is not None
    assert "- def third(values):" in rejection.nearest.diff


def test_row_10_two_places_are_none() -> None:
    """dynamo#14059: where a hunk fits twice, both places are named."""
    patch = _INSERTION.replace(b" def third(values):\n", b"").replace(b"-1,5 +1,6", b"-5,4 +5,5")
    plan = plan_series([parse_patch("twice.patch", patch)], {"twins.py": Blob(_TWINS)}.get)
    (rejection,) = plan.rejections
    assert (rejection.reason, rejection.places) == (Reason.AMBIGUOUS, (2, 10))


@needs_patch
def test_row_10_the_first_failure_ends_it(project: Project, tmp_path: Path) -> None:
    """dynamo#14059: a shell loop returns the status of its last round."""
    tree = make_tree(project, "archive", tmp_path)
    path = tree.root / "src/widget/answer.py"
    path.write_bytes(path.read_bytes().replace(b"41", b"40"))
    before = snapshot(tree.root)
    assert _apply(project, tree)[0] == 5
    assert snapshot(tree.root) == before
    loop = f'for p in {" ".join(map(str, _patches(project)))}; do {_PATCH} -p1 -i "$p"; done'
    done = subprocess.run(["sh", "-c", loop], cwd=tree.root, capture_output=True, check=False)
    assert done.returncode == 0
    assert path.with_name("answer.py.rej").exists()


def test_row_11_no_tool_is_needed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dynamo#11308, InferenceX#2704: the image has no patch(1), or no git."""
    empty = tmp_path / "bin"
    empty.mkdir()
    tree = _site(project, tmp_path / "site")
    where: list[str | Path] = ["--tree", tree.root, "--catalog", project.targets]
    script = f'git apply --check {_patches(project)[0]} 2>/dev/null || echo "already applied"'
    job = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"PATH": str(empty)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert job.stdout == "already applied\n"  # because there is no git to say anything else
    done = run("apply", "--target", "w-1.0", *where, env={"PATH": str(empty)})
    assert done.code == 0, done.err
    assert _is_patched(project, tree)
    monkeypatch.setenv("PATH", str(empty))
    assert call("verify", *where).code == 0
    assert call("reverse", *where).code == 0
    (tree.root / "widget/core.py").write_bytes(b"other\n")
    assert call("apply", "--target", "w-1.0", *where).code == 5  # closed, not open


def test_row_12_a_patch_that_drifted_is_not_taken(project: Project, tmp_path: Path) -> None:
    """spark-vllm-docker#167: what was fetched at build time was another diff one day."""
    targets = project.copy_catalog(tmp_path / "catalog")
    folder = targets.parent / "patches/widget/v1.0"
    patch = folder / "0001-answer-the-right-one.patch"
    patch.write_bytes(patch.read_bytes().replace(b"+ANSWER = 42", b"+ANSWER = 44"))
    tree = _site(project, tmp_path / "site")
    before = snapshot(tree.root)
    done = call("apply", "--target", "w-1.0", "--tree", tree.root, "--catalog", targets)
    assert done.code == 6
    assert f"{folder / 'lock.toml'}:4: series: " in done.err
    assert "pkgtools lock --target w-1.0" in done.err
    assert snapshot(tree.root) == before


def test_row_13_what_was_written_is_read_back(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NeMo-RL#4155: the anchor was missed, and success was logged."""
    write = files.write_new

    def miswrite(path: Path, data: bytes, permissions: int) -> None:
        write(path, data.replace(b"ANSWER = 42", b"ANSWER = 41"), permissions)

    tree = _site(project, tmp_path / "site")
    before = snapshot(tree.root)
    monkeypatch.setattr(files, "write_new", miswrite)
    with pytest.raises(TreeError, match=r"answer\.py"):
        apply(project, tree)
    assert snapshot(tree.root) == before
    monkeypatch.undo()
    assert _apply(project, tree)[0] == 0
    path = tree.root / "widget/answer.py"
    path.write_bytes(path.read_bytes().replace(b"ANSWER = 42", b"ANSWER = 41"))
    assert call("verify", "--tree", tree.root, "--catalog", project.targets).code != 0


def test_row_14_workers_of_one_host_do_not_undo_each_other(
    project: Project, tmp_path: Path
) -> None:
    """AReaL#93: all apply at once; one does it, and the others find it done."""
    tree = _site(project, tmp_path / "site")
    said = tmp_path / "said"

    def work() -> None:
        changed = apply(project, tree).changed
        with said.open("ab") as file:
            file.write(b"applied\n" if changed else b"found it done\n")

    for child in [fork(work) for _ in range(4)]:
        assert not child.wait().failed
    assert sorted(said.read_bytes().splitlines()) == [b"applied", *[b"found it done"] * 3]
    assert _is_patched(project, tree)
    assert leftovers(tree.root) == []


def test_row_15_files_decide_not_labels(project: Project, tmp_path: Path) -> None:
    """sglang#33628: an image's label says one revision, its files are another's."""
    wheel = build_wheel(tmp_path, dict(project.releases["1.1"]), "1.0")
    done = call("identify", "--wheel", wheel, "--catalog", project.targets, "--json")
    assert [(m["target"], m["state"]) for m in done.facts["matches"]] == [("w-1.1", "pristine")]
    done = call(
        "verify", "--dry-run", "--target", "w-1.0", "--wheel", wheel, "--catalog", project.targets
    )
    assert done.code == 3
    project.install(tmp_path / "site", "1.1")
    info = tmp_path / "site/widget_kit-1.1.dist-info"
    info.rename(info.with_name("widget_kit-1.0.dist-info"))
    done = call("identify", "--tree", tmp_path / "site", "--catalog", project.targets, "--json")
    assert done.facts["matches"][0]["target"] == "w-1.1"
    apply(project, _site(project, tmp_path / "patched"))
    done = call("identify", "--tree", tmp_path / "patched", "--catalog", project.targets, "--json")
    found = done.facts["matches"][0]
    assert (found["target"], found["state"]) == ("w-1.0", "patched")


def test_row_16_an_absorbed_hunk_is_called_one(project: Project, tmp_path: Path) -> None:
    """TorchSpec#67: upstream took a function over; the port had to find that by reading."""
    files = dict(project.releases["1.0"])
    substitute("src/widget/answer.py", b"ANSWER = 41", b"ANSWER = 42")(files)
    substitute("src/widget/core.py", b"    total = 0\n", b"    total = 0.0\n")(files)
    substitute("src/widget/other.py", b"OTHER = 1", b"OTHER = 3")(files)
    plan = _planned(_patches(project), files)
    absorbed = {(r.path, r.hunk): r.absorbed for r in plan.rejections}
    assert absorbed == {
        ("src/widget/answer.py", 1): 1,
        ("src/widget/core.py", 1): 5,
        ("src/widget/core.py", None): None,  # a later patch of that file: it depends
    }
    root = tmp_path / "tree"
    substitute("src/widget/core.py", b"LIMIT = 32", b"LIMIT = 33")(files)
    write_files(root, files)
    done = call("apply", "--target", "w-1.0", "--tree", root, "--catalog", project.targets)
    assert done.code == 5
    assert "already there at line 5 (absorbed)" in done.err


def test_row_16_a_catalog_proves_what_it_calls_absorbed(project: Project, tmp_path: Path) -> None:
    """TorchSpec#67: a release that carries a patch itself says so, and where, in its lock."""
    upstream = tmp_path / "upstream"
    git(tmp_path, "clone", "--quiet", project.repository, upstream)
    targets = project.copy_catalog(tmp_path / "catalog")
    first = _patches(project)[0].name
    files = dict(project.releases["1.0"])
    for path in ("answer.py", "core.py"):
        files[f"{PREFIX}widget/{path}"] = project.patched["v1.0"][f"{PREFIX}widget/{path}"]
    wheel = build_wheel(tmp_path / "wheels", files, "1.2")
    git(upstream, "checkout", "--quiet", "--detach", project.commits["1.0"])
    write_files(upstream, files)
    git(upstream, "commit", "--quiet", "--all", "--message", "widget 1.2")
    base = git(upstream, "rev-parse", "HEAD").strip()
    folder = targets.parent / "patches/widget/v1.2"
    step = ("other: more", [substitute(f"{PREFIX}widget/other.py", b"OTHER = 1", b"OTHER = 9")])
    make_series(upstream, base, files, [step], folder)
    entry = f"""
[[target]]
name = "w-1.2"
upstream = "widget"
series = "v1.2"
release = {{ version = "1.2", tag = "v1.2" }}
absorbed = ["v1.0/{first}"]
"""
    text = targets.read_text()
    targets.write_text(text + entry)
    done = call("lock", "--target", "w-1.2", "--wheel", wheel, "--catalog", targets)
    assert done.code == 0, done
    lock = (folder / "lock.toml").read_text()
    assert f'patch = "v1.0/{first}"' in lock
    assert '"src/widget/core.py:5"' in lock
    targets.write_text(text + entry.replace(first, _patches(project)[1].name))
    done = call("lock", "--target", "w-1.2", "--wheel", wheel, "--catalog", targets)
    assert done.code == 8
    assert "targets.toml calls " in done.err
    (folder.parent / "v1.0" / "mode.patch").write_text(_MODE_ALONE)
    with (folder.parent / "v1.0" / "series").open("a") as listing:
        listing.write("mode.patch\n")
    targets.write_text(text + entry.replace(first, "mode.patch"))
    done = call("lock", "--target", "w-1.2", "--wheel", wheel, "--catalog", targets)
    assert done.code == 8
    assert " has no hunk" in done.err


_MODE_ALONE = """\
From: A <a@example.com>
Subject: other: a program

diff --git a/src/widget/other.py b/src/widget/other.py
old mode 100644
new mode 100755
"""


def _conflicting_second(project: Project, where: Path) -> tuple[Path, list[Path]]:
    """Return a tree on which the first patch of two applies and the second does not."""
    root = project.write_archive(where / "tree")
    path = root / "src/widget/legacy/gone.py"
    path.write_bytes(b"GONE = 'changed'\n")
    patches = _patches(project)
    return root, [patches[0], patches[2]]


def test_trap_git_apply_of_two_patches_leaves_the_first(project: Project, tmp_path: Path) -> None:
    """Git applies A B as one; two runs of it, as scripts do, leave A when B fails."""
    root, patches = _conflicting_second(project, tmp_path)
    codes = [_git(root, "apply", patch).returncode for patch in patches]
    assert codes == [0, 1]
    assert b"42" in (root / "src/widget/answer.py").read_bytes()


@needs_patch
def test_trap_patch_writes_the_first_file_before_it_looks_at_the_second(
    project: Project, tmp_path: Path
) -> None:
    """patch(1) has no all or nothing: the files before the failing one are changed."""
    root, (_, third) = _conflicting_second(project, tmp_path)
    first = _patches(project)[0]
    _patch(root, "-p1", "-i", first)
    before = (root / "src/widget/core.py").read_bytes()
    assert _patch(root, "-p1", "--batch", "-i", third).returncode == 1
    assert (root / "src/widget/core.py").read_bytes() != before


def test_all_or_nothing_where_the_second_patch_fails(project: Project, tmp_path: Path) -> None:
    root, _ = _conflicting_second(project, tmp_path)
    before = snapshot(root)
    assert _apply(project, project.tree(root))[0] == 5
    assert snapshot(root) == before


@needs_patch
def test_trap_patch_takes_an_applied_patch_out(project: Project, tmp_path: Path) -> None:
    """`patch -t` "assumes -R" on a patched tree; a second `apply` of ours does nothing."""
    tree = make_tree(project, "archive", tmp_path)
    first = _patches(project)[0]
    for _ in range(2):
        _patch(tree.root, "-t", "-p1", "-i", first)
    assert b"ANSWER = 41" in (tree.root / "src/widget/answer.py").read_bytes()
    shutil.rmtree(tree.root)
    project.write_archive(tree.root)
    assert _apply(project, tree)[0] == 0
    after = snapshot(tree.root)
    assert _apply(project, tree)[0] == 0
    assert snapshot(tree.root) == after


@needs_patch
def test_trap_a_dry_run_backwards_succeeds_on_a_pristine_tree(
    project: Project, tmp_path: Path
) -> None:
    """`patch -R --dry-run --batch` is no question whether a patch is applied."""
    tree = make_tree(project, "archive", tmp_path)
    first = _patches(project)[0]
    assert _patch(tree.root, "-R", "--dry-run", "--batch", "-p1", "-i", first).returncode == 0
    done = call("status", "--tree", tree.root, "--catalog", project.targets, "--json")
    assert done.facts["state"] == "pristine"
    assert call("verify", "--tree", tree.root, "--catalog", project.targets).code == 8


def test_trap_a_patch_that_only_deletes_looks_applied(tmp_path: Path) -> None:
    """Its context stands in a file that never had the lines; content says what is the case."""
    root = tmp_path / "tree"
    before = b"a = 1\nb = 2\nc = 3\n"
    other = b"a = 1\nc = 3\n"  # a file that never had the line
    patch = b"""\
diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py
@@ -1,3 +1,2 @@
 a = 1
-b = 2
 c = 3
"""
    write_files(root, {"x.py": Blob(other)})
    (tmp_path / "delete.patch").write_bytes(patch)
    assert _git(root, "apply", "-R", "--check", tmp_path / "delete.patch").returncode == 0
    parsed = [parse_patch("delete.patch", patch)]
    assert not plan_series(parsed, {"x.py": Blob(other)}.get).ok
    assert plan_series(parsed, {"x.py": Blob(before)}.get).changes[0].after == Blob(other)


def test_a_patch_file_that_is_no_patch_is_refused() -> None:
    """An error page in the place of a diff, as a download at build time once brought."""
    with pytest.raises(MalformedError):
        parse_patch("page.patch", b"<!DOCTYPE html>\n<title>404</title>\n")
