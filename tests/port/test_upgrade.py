"""An upgrade: a stale series goes to the newest release, up to the text of a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git
from silent import Silent
from small import FIELDS, FORGE, HAS, MERGED, Small, make_small, stale

from pkgtools.authoring.changelog import with_entry
from pkgtools.authoring.lock import write_locks
from pkgtools.catalog import load_catalog
from pkgtools.port import upgrade as upgrades
from pkgtools.source.at_hand import AtHand, Sources

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkgtools.port.route.released_versions", lambda _: [])


def commit(small: Small) -> None:
    git(small.catalog.parent, "add", "--all")
    git(small.catalog.parent, "commit", "--quiet", "--message", "all")


def changed(small: Small) -> list[str]:
    status = git(small.catalog.parent, "status", "--porcelain", "--untracked-files=all")
    return [line[3:] for line in status.splitlines()]


def upgrade(small: Small, *arguments: str) -> Result:
    wheels: list[str | Path] = []
    for path in sorted((small.root / "wheels").iterdir()):
        wheels += ["--wheel", path]
    return call("upgrade", "--catalog", small.catalog, *wheels, *arguments)


def test_a_changelog_that_is_not_utf_8(tmp_path: Path) -> None:
    small = stale(tmp_path, MERGED)
    changelog = small.catalog.with_name("CHANGELOG.md")
    text = changelog.read_text()
    changelog.write_bytes(text.encode() + b"caf\xe9\n")
    refused = upgrade(small)
    assert (refused.code, "CHANGELOG.md cannot be read" in refused.err) == (6, True)
    assert "v1.2" not in small.catalog.read_text()
    changelog.write_text(text)
    assert upgrade(small).code == 0
    assert "v1.2" in small.catalog.read_text()


def test_a_stale_series_becomes_the_text_of_a_pull_request(tmp_path: Path) -> None:
    small = stale(tmp_path, MERGED)
    small.catalog.write_text(f'default = "one"\n{small.catalog.read_text()}')
    commit(small)
    done = upgrade(small)
    assert done.code == 0, done.err
    assert "- [ ] set `default` in targets.toml: it is `one`" in done.out
    series = "patches/widget/v1.2"
    assert changed(small) == [
        "CHANGELOG.md",
        "targets.toml",
        f"{series}/0001-keep-far-down.patch",
        f"{series}/0002-fields-one-more.patch",
        f"{series}/lock.toml",
        f"{series}/series",
    ]
    # The other commands are content with it.
    wheel = small.wheel("1.2")
    options = ("--target", "v1.2", "--catalog", small.catalog)
    assert call("verify", "--dry-run", "--wheel", wheel, *options).code == 0
    assert call("lock", "--check", "--wheel", wheel, *options).code == 0
    assert call("changelog", "check", "--catalog", small.catalog).code == 0
    assert small.made(small.catalog.parent / series, "1.2")["src/widget/fields.py"] == (
        MERGED.replace("    last", "    ours: int = 5\n    last").encode()
    )
    lines = done.out.splitlines()
    assert lines[0] == "# widget-kit 1.2"
    assert lines[2] == (
        f"The series of `one` on [widget-kit 1.2]({FORGE}/releases/tag/v1.2), as target `v1.2`."
    )
    assert "| `0001-keep-far-down.patch` | moved | 1 moved |" in lines
    rule = "insertion-beside-insertion"
    assert any(
        line.startswith("- `0002-fields-one-more.patch`, ") and rule in line for line in lines
    )
    absorbed = "- `0003-has-a-value-that-upstream-will-have.patch`, `src/widget/has.py:1`"
    assert any(line.startswith(absorbed) for line in lines)
    assert "- [ ] look at each merged place: a merge by rule is a proposal" in lines
    assert any(f"applies exactly to `{wheel.name}`" in line for line in lines)
    assert str(tmp_path) not in done.out


def test_the_entry_of_a_package_without_git_passes_the_changelog_check(tmp_path: Path) -> None:
    small = stale(tmp_path)
    lines = small.catalog.read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("git = "))
    small.catalog.write_text(re.sub(r', tag = "[^"]+"', "", text))
    commit(small)
    git(small.catalog.parent, "tag", "1.0")
    done = upgrade(small)
    assert done.code == 0, done.err
    assert "https://pypi.org/project/widget-kit/1.2/" in done.out
    checked = call("changelog", "check", "--catalog", small.catalog)
    assert checked.code == 0, checked.err


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    small = stale(tmp_path)
    assert upgrade(small, "--json").facts["outcome"] == "upgraded"
    commit(small)
    for arguments in ((), ("--target", "one"), ("--exec", "false")):
        again = upgrade(small, *arguments, "--json")
        assert (again.code, again.facts["outcome"]) == (0, "current")
        assert changed(small) == []
    small.catalog.write_text(f'default = "v1.2"\n{small.catalog.read_text()}')
    assert "set `default`" not in upgrade(small, "--json").facts["text"]


def test_a_conflict_waits_and_the_same_command_goes_on(tmp_path: Path) -> None:
    small = stale(
        tmp_path, FIELDS.replace("last: int = 2", "last: int = 3").replace("first", "one")
    )
    series = small.catalog.parent / "patches/widget/one/0002-fields-one-more.patch"
    series.write_text(
        series.read_text()
        .replace("+    ours: int = 5\n", "")
        .replace("     last: int = 2\n", "-    last: int = 2\n+    last: int = 9\n")
        .replace("@@ -1,3 +1,4 @@", "@@ -1,3 +1,3 @@")
    )
    write_locks(load_catalog(small.catalog).targets, AtHand(Silent(), [small.wheel("1.0")]))
    commit(small)
    done = upgrade(small)
    assert done.code == 3
    assert "- [ ] decide `0002-fields-one-more.patch`, `src/widget/fields.py:3`" in done.out
    waiting = changed(small)
    assert all(path.startswith("patches/widget/v1.2.port/") for path in waiting)
    again = upgrade(small)
    assert again.code == 3
    assert "still have conflict markers" in again.err
    assert changed(small) == waiting
    conflict = small.catalog.parent / "patches/widget/v1.2.port/conflicts/src/widget/fields.py"
    conflict.write_text("class Args:\n    one: int = 1\n    last: int = 9\n")
    done = upgrade(small, "--json")
    assert (done.code, done.facts["outcome"]) == (0, "upgraded"), done.err
    assert "patches/widget/v1.2/lock.toml" in changed(small)
    assert not conflict.exists()


def test_releases_that_change_no_patch_have_one_table(tmp_path: Path) -> None:
    line = "X = 1\n"
    releases = {"1.0": {"a.py": line}, "1.1": {"a.py": line}, "1.2": {"a.py": line}}
    releases["1.3"] = {"a.py": "Y = 0\n\n\n" + line}
    small = make_small(tmp_path / "small", releases, [("one", {"a.py": "X = 2\n"})])
    done = upgrade(small)
    assert done.code == 0, done.err
    tables = [line for line in done.out.splitlines() if line.startswith(("## w", "## `w", "| `"))]
    assert tables == [
        "## widget_kit-1.0-py3-none-any.whl to widget_kit-1.2-py3-none-any.whl",
        "| `0001-one.patch` | unchanged | 1 unchanged |",
        "## widget_kit-1.2-py3-none-any.whl to widget_kit-1.3-py3-none-any.whl",
        "| `0001-one.patch` | merged | 1 merged |",
    ]


def test_proposals_are_in_the_text_and_are_taken(tmp_path: Path) -> None:
    calls = "def f(x):\n    one(x)\n    end(x)\n"
    ours, theirs = (
        calls.replace("    end", f"    {who}(x)\n    end") for who in ("ours", "theirs")
    )
    releases = {"1.0": {"a.py": calls}, "1.1": {"a.py": theirs}}
    small = make_small(tmp_path / "small", releases, [("one", {"a.py": ours})])
    done = upgrade(small)
    assert done.code == 3
    assert "; proposal 1 (words):\n\n          theirs(x)\n          ours(x)\n" in done.out
    assert "take the proposals that are right: `pkgtools upgrade --accept [FILE]`" in done.out
    done = upgrade(small, "--accept")
    assert done.code == 0, done.err
    assert small.made(small.catalog.parent / "patches/widget/v1.1", "1.1") == {
        "src/widget/a.py": theirs.replace("    end", "    ours(x)\n    end").encode()
    }


def test_a_check_runs_after_each_patch(tmp_path: Path) -> None:
    small = stale(tmp_path)
    (tmp_path / "check.sh").write_text(
        'echo "$PKGTOOLS_PATCH" >>"$PKGTOOLS_CATALOG/ran"\necho "at $PWD"\n'
        'exec python3 -c "import widget.fields as f; f.Args.ours"\n'
    )
    check = f"sh {tmp_path / 'check.sh'}"
    done = upgrade(small, "--exec", check, "--exec", "true", "--json")
    assert (done.code, done.facts["outcome"]) == (8, "check-failed")
    names = ["0001-keep-far-down.patch", "0002-fields-one-more.patch"]
    assert small.catalog.with_name("ran").read_text().split() == names
    assert [(r["patch"], r["status"] == 0) for r in done.facts["checks"]] == [
        *((names[0], False), (names[1], True)),
        *((name, True) for name in names),
    ]
    assert "AttributeError: type object 'Args' has no attribute 'ours'" in done.facts["text"]
    assert "pkgtools-exec-" not in done.facts["text"]
    assert (
        f"- failed after `{names[0]}` (1): `{check}` ran after each of 2 patches"
        in (done.facts["text"])
    )
    assert "- passed: `true` ran after each of 2 patches" in done.facts["text"]
    # The series is there for a person to look at.
    assert "patches/widget/v1.2/lock.toml" in changed(small)


def test_a_run_that_ended_before_the_proof_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = stale(tmp_path)

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(upgrades, "write_locks", killed)
        with pytest.raises(KeyboardInterrupt):
            upgrades.upgrade(
                load_catalog(small.catalog),
                None,
                upgrades.UpgradeOptions(Sources(sorted((small.root / "wheels").iterdir()))),
                Silent(),
            )
    assert "patches/widget/v1.2/lock.toml" not in changed(small)
    assert upgrade(small, "--json").facts["outcome"] == "upgraded"
    assert "patches/widget/v1.2/lock.toml" in changed(small)
    assert upgrade(small, "--json").facts["outcome"] == "current"


def test_nothing_is_written_where_upstream_has_it_all(tmp_path: Path) -> None:
    small = make_small(
        tmp_path / "small",
        {"1.0": {"has.py": HAS}, "1.1": {"has.py": HAS.replace("1", "2")}},
        [("has: a value", {"has.py": HAS.replace("1", "2")})],
    )
    before = small.catalog.read_bytes()
    done = upgrade(small, "--json")
    assert (done.code, done.facts["outcome"]) == (0, "absorbed")
    assert "Absorbed: upstream has it" in done.facts["text"]
    assert small.catalog.read_bytes() == before
    assert not (small.catalog.parent / "patches/widget/v1.1").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# Changelog\n", "# Changelog\n\n## Unreleased\n\n- new\n"),
        ("# C\n\n## 1.0\n\n- old\n", "# C\n\n## Unreleased\n\n- new\n\n## 1.0\n\n- old\n"),
        ("## Unreleased\n\n## 1.0\n", "## Unreleased\n\n- new\n\n## 1.0\n"),
        ("## [Unreleased]\n- old\n", "## [Unreleased]\n\n- new\n- old\n"),
        (
            "## Unreleased\n\n### Added\n\n- old\n\n[Unreleased]: x\n",
            "## Unreleased\n\n### Added\n\n- new\n- old\n\n[Unreleased]: x\n",
        ),
        ("## Unreleased\n\nText.\n", "## Unreleased\n\n- new\n\nText.\n"),
    ],
)
def test_an_entry_is_the_first_of_what_is_unreleased(before: str, after: str) -> None:
    assert with_entry(before, "new") == after
