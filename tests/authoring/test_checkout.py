"""A series as git commits and back: byte-identical where nothing was edited."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from commands import call
from project import git, git_environment
from sharing import make_sharing, options
from silent import Silent
from small import make_small
from trees import contents, snapshot

from pkgtools.authoring import commit as commit_module
from pkgtools.authoring.workbench import BenchState, write_state
from pkgtools.blob import Blob
from pkgtools.catalog import load_series

if TYPE_CHECKING:
    from pathlib import Path

    from small import Small

_TEXT = "".join(f"line{n} = {n}\n" for n in range(20))
_EDITS = [
    ("one", {"a.py": _TEXT.replace("line3 = 3", "line3 = 0")}),
    ("two", {"b.py": "B = 2\n"}),
    ("three", {"c.py": "C = 2\n"}),
]


@pytest.fixture
def small(tmp_path: Path) -> Small:
    files = {"a.py": _TEXT, "b.py": "B = 1\n", "c.py": "C = 1\n", "tool.py": "#!/bin/sh\n"}
    return make_small(tmp_path / "small", {"1.0": files}, _EDITS)


def _checkout(small: Small, where: Path, series: str = "one", *words: str | Path) -> Path:
    given: list[str | Path] = list(words) or _wheels(small)
    done = call("checkout", where, "--series", series, "--catalog", small.catalog, *given)
    assert (done.code, f"writing {where} ...\n" in done.err) == (0, True), done.err
    return where


def _wheels(small: Small) -> list[str | Path]:
    return [w for path in (small.root / "wheels").iterdir() for w in ("--wheel", path)]


def _commit(where: Path) -> Any:
    return call("commit", where, "--json").facts


def _names(small: Small) -> list[str]:
    return [patch.name for patch in load_series(small.series).patches]


def _rebase(where: Path, script: str, message: str) -> None:
    """Edit the list of an interactive rebase with sed."""
    git(
        where,
        "-c",
        f"sequence.editor=sed -i '{script}'",
        "-c",
        f"core.editor={message}",
        "rebase",
        "--quiet",
        "--interactive",
        "base",
    )


def _holds(small: Small, where: Path, tmp_path: Path, series: str = "one") -> None:
    """Apply the series with git, and compare with the files of the checkout."""
    tree = tmp_path / "applied"
    git(small.repository, "worktree", "add", "--quiet", "--detach", tree, "v1.0")
    for patch in load_series(small.series.parent / series).patches:
        (tmp_path / "patch").write_bytes(patch.data)
        git(tree, "apply", tmp_path / "patch")
    assert contents(tree / "src") == contents(where / "src")


@pytest.mark.parametrize("source", ["wheel", "git"])
def test_nothing_edited_is_nothing_written(small: Small, tmp_path: Path, source: str) -> None:
    before = snapshot(small.root / "catalog")
    given: list[str | Path] = ["--git", small.repository, "--from", small.commits["1.0"]]
    where = _checkout(small, tmp_path / "work", "one", *(given if source == "git" else ()))
    _holds(small, where, tmp_path)
    subjects = git(where, "log", "--reverse", "--format=%s", "base..").split()
    assert subjects == ["one", "two", "three"]
    assert git(where, "log", "-1", "--format=%an %ae %ad").strip() == (
        "Widget Maker maker@example.invalid Thu Jan 2 03:04:05 2020 +0000"
    )
    assert git(where, "status", "--porcelain") == ""
    facts = _commit(where)
    assert {patch["outcome"] for patch in facts["patches"]} == {"unchanged"}
    assert not facts["changed"]
    assert snapshot(small.root / "catalog") == before


def test_what_git_rebase_does_comes_back(small: Small, tmp_path: Path) -> None:
    """Reorder, drop and reword; what is not reworded keeps its bytes."""
    before = {p.name: p.data for p in load_series(small.series).patches}
    where = _checkout(small, tmp_path / "work")
    _rebase(where, "/one/d;1{h;d};/two/{s/^pick/reword/;H;d};/three/G", "sed -i 1s/two/II/")
    listed = git(where, "log", "--reverse", "--format=%s", "base..").split()
    facts = _commit(where)
    assert facts["dropped"] == ["0001-one.patch"]
    assert _names(small) == ["0003-three.patch", "0002-two.patch"]
    patches = {patch.name: patch for patch in load_series(small.series).patches}
    assert [patch.subject for patch in patches.values()] == listed
    assert patches["0003-three.patch"].data == before["0003-three.patch"]
    assert b"Upstream-Status: Pending" in patches["0002-two.patch"].data
    _holds(small, where, tmp_path)


def test_amended_new_and_renamed_commits(small: Small, tmp_path: Path) -> None:
    where = _checkout(small, tmp_path / "work")
    package = where / "src" / "widget"
    (package / "c.py").write_text("C = 3\n")
    git(where, "commit", "--quiet", "--all", "--amend", "--no-edit")
    git(where, "mv", "src/widget/b.py", "src/widget/moved.py")
    (package / "tool.py").chmod(0o755)
    git(where, "commit", "--quiet", "--all", "--message", "Move b\n\nBecause.")
    (package / "data.bin").write_bytes(b"\0\1")
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--message", "data: add\n\nPatch-Filename: data.patch")
    facts = _commit(where)
    outcomes = {patch["patch"]: patch["outcome"] for patch in facts["patches"]}
    assert outcomes == {
        "0001-one.patch": "unchanged",
        "0002-two.patch": "unchanged",
        "0003-three.patch": "edited",
        "0004-Move-b.patch": "new",
        "data.patch": "new",
    }
    kinds = {f.new_path: str(f.kind) for f in load_series(small.series).patches[3].files}
    assert kinds == {"src/widget/moved.py": "rename", "src/widget/tool.py": "modify"}
    _holds(small, where, tmp_path)
    before = snapshot(small.root / "catalog")
    assert {patch["outcome"] for patch in _commit(where)["patches"]} == {"unchanged"}
    assert snapshot(small.root / "catalog") == before
    git(where, "commit", "--quiet", "--amend", "--message", "data: more\n\nPatch-Filename: d.patch")
    assert _commit(where)["patches"][-1] | {"commit": ""} == {
        "patch": "d.patch",
        "outcome": "edited",
        "commit": "",
        "was": "data.patch",
    }
    assert _names(small)[-1] == "d.patch"


def test_comments_and_levels_of_the_list_stay(small: Small, tmp_path: Path) -> None:
    listing = small.series / "series"
    patch = small.series / "0002-two.patch"
    patch.write_bytes(patch.read_bytes().replace(b"a/src", b"src").replace(b"b/src", b"src"))
    listing.write_text(
        "# ours\n\n0001-one.patch\n# why two\n0002-two.patch -p0  # old\n0003-three.patch\n"
    )
    where = _checkout(small, tmp_path / "work")
    git(where, "reset", "--quiet", "--hard", "HEAD~2")
    git(where, "cherry-pick", "series@{1}", "series@{1}^")
    _commit(where)
    assert listing.read_text() == (
        "# ours\n\n0001-one.patch\n0003-three.patch\n# why two\n0002-two.patch -p0  # old\n"
    )
    (where / "src/widget/b.py").write_text("B = 3\n")
    git(where, "commit", "--quiet", "--all", "--amend", "--no-edit")
    _commit(where)
    assert listing.read_text().endswith("# why two\n0002-two.patch  # old\n")
    _holds(small, where, tmp_path)


def test_an_unchanged_shared_patch_stays_shared(tmp_path: Path) -> None:
    small = make_sharing(tmp_path / "small")
    where = tmp_path / "work"
    assert call("checkout", where, "--series", "two", *options(small)).code == 0
    before = snapshot(small.root / "catalog")
    assert _commit(where)["shared"] == []
    assert snapshot(small.root / "catalog") == before
    (where / "src/widget/b.py").write_text("B = 1\n")
    git(where, "commit", "--quiet", "--all", "--amend", "--no-edit")
    refused = call("commit", where)
    assert (refused.code, "a commit of their own" in refused.err) == (2, True)
    assert snapshot(small.root / "catalog") == before


def test_shared_patches_are_edited_in_place(tmp_path: Path) -> None:
    small = make_sharing(tmp_path / "small")
    where = tmp_path / "work"
    assert call("checkout", where, "--series", "two", *options(small)).code == 0
    package = where / "src" / "widget"
    (package / "a.py").write_text((package / "a.py").read_text().replace("LIMIT = 1", "LIMIT = 9"))
    git(where, "commit", "--quiet", "--all", "--message", "fixup! limit: one more")
    (package / "extra" / "added.py").write_text("ADDED = 2\n")
    git(where, "commit", "--quiet", "--all", "--message", "fixup! extra: a module")
    git(where, "-c", "sequence.editor=:", "rebase", "--quiet", "-i", "--autosquash", "base")
    facts = _commit(where)
    assert {edit["patch"]: edit["targets"] for edit in facts["shared"]} == {
        "../extra/": ["one"],
        "../limit.patch": ["one", "three"],
    }
    series = small.series.parent
    assert (series / "two" / "series").read_text() == "../extra/\n../limit.patch\n"
    for name, version in (("one", "1.0"), ("two", "1.1"), ("three", "1.2")):
        made = small.made(series / name, version)
        assert b"LIMIT = 9" in (made["src/widget/a.py"] or b"")
    locked = call("lock", *options(small))
    assert locked.code == 0, locked.err


def test_nobodys_settings_leak_in(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User configuration, hooks and attributes change neither the files nor the patches."""
    config = tmp_path / "config"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "post-checkout", "post-commit"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "attributes").write_text("*.py text eol=crlf ident\n")
    (tmp_path / "ignored").write_text("*.py\n")
    config.write_text(
        f"[core]\nautocrlf = true\nhooksPath = {hooks}\nattributesFile = {tmp_path}/attributes\n"
        f"excludesFile = {tmp_path}/ignored\n[commit]\ngpgSign = true\n"
        f"[init]\ntemplateDir = {tmp_path}\n[diff]\nnoprefix = true\nexternal = false\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    where = _checkout(small, tmp_path / "work")
    monkeypatch.delenv("GIT_DIR")
    _holds(small, where, tmp_path)
    (where / "src/widget/new.py").write_text("N = 1\n")
    user = git_environment() | {"GIT_CONFIG_GLOBAL": str(config)}
    for words in (["add", "--all"], ["commit", "--quiet", "-m", "new: one"]):
        subprocess.run(["git", *words], cwd=where, env=user, check=True)
    facts = _commit(where)
    assert [patch["outcome"] for patch in facts["patches"]] == ["unchanged"] * 3 + ["new"]
    assert b"\r" not in (small.series / "0004-new-one.patch").read_bytes()


def test_the_parts_of_a_split_commit_are_patches_of_their_own(small: Small, tmp_path: Path) -> None:
    where = _checkout(small, tmp_path / "work")
    before = (small.series / "0003-three.patch").read_bytes()
    for text in ("D = 1\n", "D = 2\n"):
        (where / "src/widget/d.py").write_text(text)
        git(where, "add", "--all")
        git(where, "commit", "--quiet", "--reuse-message", "series~0")  # with its Patch-Filename
    facts = _commit(where)
    listed = ["0001-one.patch", "0002-two.patch", "0003-three.patch"]
    listed += ["0004-three.patch", "0005-three.patch"]
    assert [patch["patch"] for patch in facts["patches"]] == listed
    assert _names(small) == listed
    assert (small.series / "0003-three.patch").read_bytes() == before
    _holds(small, where, tmp_path)
    assert _commit(where)["changed"] is False


def test_a_message_that_reads_as_a_diff_is_refused(small: Small, tmp_path: Path) -> None:
    where = _checkout(small, tmp_path / "work")
    (where / "src/widget/b.py").write_text("B = 9\n")
    message = "odd\n\n---\nx\n@@ -1 +1 @@\n-a\n+b\n"
    git(where, "commit", "--quiet", "--all", "--message", message)
    before = snapshot(small.root / "catalog")
    done = call("commit", where)
    assert (done.code, "the commit 'odd' cannot be a patch" in done.err) == (2, True)
    assert "git commit --amend" in done.err
    assert snapshot(small.root / "catalog") == before


def test_refusals_say_what_to_do(small: Small, tmp_path: Path) -> None:
    where = _checkout(small, tmp_path / "work")
    taken = call("checkout", where, "--series", "one", "--catalog", small.catalog, *_wheels(small))
    assert (taken.code, "exists already" in taken.err, "with -o" in taken.err) == (2, True, False)
    (tmp_path / "nowhere").symlink_to("gone")
    catalog = ("--catalog", small.catalog, *_wheels(small))
    dangling = call("checkout", tmp_path / "nowhere", *catalog)
    assert (dangling.code, "nowhere exists already" in dangling.err) == (2, True)
    other = call("commit", tmp_path)
    assert (other.code, "pkgtools checkout" in other.err) == (2, True)
    before = snapshot(small.root / "catalog")
    (where / "README.md").write_text("outside\n")
    dirty = call("commit", where)
    assert (dirty.code, "README.md" in dirty.err) == (2, True)
    assert f"`git -C {where} commit --amend`" in dirty.err  # not in the user's own folder
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--message", "docs")
    outside = call("commit", where)
    assert (outside.code, "--git REPOSITORY" in outside.err) == (2, True)
    git(where, "reset", "--quiet", "--hard", "HEAD~1")
    git(where, "checkout", "--quiet", "-b", "side", "base")
    (where / "src/widget/b.py").write_text("B = 7\n")
    git(where, "commit", "--quiet", "--all", "--message", "side")
    git(where, "merge", "--quiet", "--strategy=ours", "--no-edit", "series")
    merged = call("commit", where)
    assert (merged.code, "rebase" in merged.err) == (2, True)
    assert snapshot(small.root / "catalog") == before
    git(where, "checkout", "--quiet", "series")
    listing = small.series / "series"
    listing.write_text(listing.read_text().replace("0003-three.patch\n", ""))
    (small.series / "0003-three.patch").unlink()
    catalog_folder = small.catalog.parent.rename(tmp_path / "elsewhere")
    gone = call("commit", where)
    assert (gone.code, "which is gone" in gone.err, "--catalog" in gone.err) == (2, True, False)
    catalog_folder.rename(small.catalog.parent)
    changed = call("commit", where)
    assert (changed.code, "changed since it was checked out" in changed.err) == (2, True)


def test_a_file_that_becomes_a_folder_is_a_patch_and_a_submodule_is_refused(
    small: Small, tmp_path: Path
) -> None:
    where = _checkout(small, tmp_path / "work")
    package = where / "src/widget"
    (package / "b.py").unlink()
    (package / "b.py").mkdir()
    (package / "b.py/inner.py").write_text("B = 3\n")
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--message", "a folder")
    assert _commit(where)["patches"][-1]["patch"] == "0004-a-folder.patch"
    _holds(small, where, tmp_path)
    commit = git(where, "rev-parse", "HEAD").strip()
    git(where, "update-index", "--add", "--cacheinfo", f"160000,{commit},src/widget/sub")
    git(where, "commit", "--quiet", "--message", "a submodule")
    (package / "sub").mkdir()
    done = call("commit", where)
    assert (done.code, "the submodule src/widget/sub" in done.err) == (2, True)


def test_names_that_git_quotes_come_back_and_those_of_no_text_are_refused(
    small: Small, tmp_path: Path
) -> None:
    where = _checkout(small, tmp_path / "work")
    for name in ("\u00fcn\u00ef.py", "a b\tc.py", 'q"u.py'):
        (where / "src/widget" / name).write_text("X = 1\n")
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--message", "names")
    assert _commit(where)["patches"][-1]["outcome"] == "new"
    _holds(small, where, tmp_path)
    (where / "src/widget" / os.fsdecode(b"caf\xe9.py")).write_text("X = 1\n")
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--message", "latin-1")
    done = call("commit", where)
    assert (done.code, "is not UTF-8" in done.err) == (2, True)
    assert "the commit 'latin-1' cannot be a patch" in done.err


def test_a_checkout_that_lacks_commits_is_refused(small: Small, tmp_path: Path) -> None:
    """A bisect, a revert or a look at an older commit leaves some of the series out."""
    where = _checkout(small, tmp_path / "work")
    before = snapshot(small.root / "catalog")
    git(where, "bisect", "start", "series", "base")
    bisected = call("commit", where)
    assert (bisected.code, f"{where}: a bisect is not finished" in bisected.err) == (2, True)
    git(where, "bisect", "reset")
    git(where, "revert", "--no-commit", "HEAD")
    reverted = call("commit", where)
    assert (reverted.code, f"{where}: a revert is not finished" in reverted.err) == (2, True)
    git(where, "revert", "--abort")
    git(where, "checkout", "--quiet", "--detach", "HEAD~1")
    older = call("commit", where)
    assert (older.code, f"git -C {where} switch series" in older.err) == (2, True)
    assert snapshot(small.root / "catalog") == before
    git(where, "switch", "--quiet", "series")
    assert call("commit", where).code == 0


def _write_forms(small: Small) -> None:
    """Add patches in the forms in which people have them; git makes them of commits."""
    where = small.root / "forms"
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, "v1.0")
    for patch in load_series(small.series).patches:
        git(where, "am", "--quiet", small.series / patch.name)
    package = where / "src" / "widget"
    lines = (small.series / "series").read_text()

    def put(name: str, *options: str, head: bool = True, line: str = "") -> None:
        nonlocal lines
        git(where, "add", "--all")
        git(where, "commit", "--quiet", "--message", f"{name}: é\n\nBody.\n\n\nMore.")
        mail = git(where, "format-patch", "--binary", "--stdout", "-1", *options)
        start = 0 if head else mail.index("diff --git")
        (small.series / name).write_text(mail[start:], newline="")
        lines += f"{name}{line}\n"

    (package / "data.bin").write_bytes(bytes(range(256)))
    put("binary.patch")
    (package / "link.py").symlink_to("a.py")
    put("link.patch")
    (package / "b.py").rename(package / "b c.py")
    put("rename.patch", "-M")
    (package / "c.py").write_text("C = 3")
    put("flat.diff", head=False)
    (package / "a.py").write_text(_TEXT.replace("line15 = 15", "line15 = 0"))
    put("plain.patch", "--no-prefix", line=" -p0")
    (package / ".gitattributes").write_text("* text eol=crlf ident filter=lfs merge=ours\n")
    (package / "crlf.py").write_bytes(b"X = '$Id$'\r\n")
    put("attributes.patch")
    (small.series / "series").write_text(lines)


def test_every_form_of_a_patch_keeps_its_bytes_or_gets_another_message(
    small: Small, tmp_path: Path
) -> None:
    _write_forms(small)
    before = snapshot(small.root / "catalog")
    where = _checkout(small, tmp_path / "work")
    assert git(where, "status", "--porcelain") == ""
    theirs = contents(small.root / "forms" / "src")
    theirs["widget/crlf.py"] = Blob(b"X = '$Id$'\n")  # git converted it when it was committed
    assert contents(where / "src") == theirs
    assert {patch["outcome"] for patch in _commit(where)["patches"]} == {"unchanged"}
    assert snapshot(small.root / "catalog") == before
    _rebase(where, "s/^pick/reword/", "sed -i 1s/$/,again/")
    assert {patch["outcome"] for patch in _commit(where)["patches"]} == {"edited"}
    again = _checkout(small, tmp_path / "again")
    assert contents(again / "src") == contents(where / "src")
    form = "--format=%an %ad %B"
    assert git(again, "log", form, "base..") == git(where, "log", form, "base..")


@pytest.mark.parametrize("at", [1, 2])
def test_a_commit_that_was_killed_can_be_made_again(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Behind the first state nothing is written, before the second all is."""
    where = _checkout(small, tmp_path / "work")
    (where / "src/widget/new.py").write_text("N = 1\n")
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--message", "new: one")
    states: list[Path] = []

    def killed(folder: Path, state: BenchState) -> None:
        states.append(folder)
        if at == 1 or len(states) < at:
            write_state(folder, state)
        if len(states) == at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(commit_module, "write_state", killed)
        with pytest.raises(KeyboardInterrupt):
            commit_module.commit_series(where, Silent())
    assert len(_names(small)) == (3 if at == 1 else 4)
    facts = _commit(where)
    assert facts["patches"][-1]["patch"] == "0004-new-one.patch"
    assert _names(small)[-1] == "0004-new-one.patch"
    _holds(small, where, tmp_path)
