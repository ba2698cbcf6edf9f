"""`changelog check`: a changed series is told, with a target and a link, and history stays."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest
from commands import call
from project import git

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Result
    from project import Project

_PULL: Final = "https://forge.dev/widgets/pkg/pull/12"
_FIRST: Final = f"""\
# Changelog

## Unreleased

## 1.0 - 2026-01-02

### Added

- `w-1.0`, `w-1.1` and `w-dev`, in one entry:
  {_PULL}.

[1.0]: https://forge.dev/widgets/pkg/releases/tag/1.0
"""


class Repo:
    """A repository with a catalog and its changelog."""

    def __init__(self, project: Project, where: Path) -> None:
        self._project = project
        self.root = where
        self.targets = project.copy_catalog(where / "ours")
        text = self.targets.read_text()
        self.targets.write_text(text.replace("git.example.invalid/w", "forge.dev/widgets/w"))
        self.changelog = self.targets.with_name("CHANGELOG.md")
        self.changelog.write_text(_FIRST)
        git(where, "init", "--quiet")
        self.commit()

    def commit(self) -> None:
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", "a step")

    def tag(self, name: str = "1.0") -> None:
        git(self.root, "tag", name)

    def change(self, target: str = "w-1.0") -> None:
        """Give a target another series, as a later state of the catalog has it."""
        assert target == "w-1.0"
        ours = self.targets.parent / "patches/widget/v1.0"
        shutil.rmtree(ours)
        newer = self._project.changed_targets.parent / "patches/widget/v1.0"
        # With fresh times: git passes over a file whose size and times are what they were.
        shutil.copytree(newer, ours, copy_function=shutil.copyfile)

    def tell(self, entry: str) -> None:
        self.changelog.write_text(_FIRST.replace("## Unreleased\n", f"## Unreleased\n\n{entry}\n"))

    def check(self, *more: str) -> Result:
        return call("changelog", "check", "--catalog", self.targets, *more)


@pytest.fixture
def repo(project: Project, tmp_path: Path) -> Repo:
    return Repo(project, tmp_path)


def test_without_a_tag_every_series_is_new(repo: Repo) -> None:
    done = repo.check("--json")
    assert done.code == 0, done
    assert done.facts["since"] is None
    assert [(c["target"], c["before"], c["links"]) for c in done.facts["changed"]] == [
        (name, None, [_PULL]) for name in ("w-1.0", "w-1.1", "w-dev")
    ]
    repo.changelog.write_text(_FIRST.replace(" and `w-dev`", ""))
    done = repo.check()
    assert done.code == 8
    assert "w-dev is new, and no new entry names it" in done.err


def test_nothing_changed_since_the_tag(repo: Repo) -> None:
    repo.tag()
    done = repo.check("--json")
    assert done.code == 0
    assert (done.facts["since"], done.facts["changed"]) == ("1.0", [])


def test_attributes_for_archives_do_not_count(repo: Repo) -> None:
    (repo.root / ".gitattributes").write_text("patches export-ignore\n")
    repo.commit()
    repo.tag()
    assert repo.check().code == 0


def test_a_changed_series_needs_a_new_entry(repo: Repo) -> None:
    repo.tag()
    repo.change()
    done = repo.check("--json")
    assert done.code == 8
    error = done.facts["error"]
    assert error["details"]["faults"] == ["w-1.0 changed, and no new entry names it"]
    repo.tell(f"- `w-1.0` rounds down: {_PULL}")
    done = repo.check("--json")
    assert done.code == 0, done
    (changed,) = done.facts["changed"]
    assert changed["target"] == "w-1.0"
    assert changed["before"] != changed["after"]
    assert changed["line"] == 5


def test_the_nearest_tag_counts(repo: Repo) -> None:
    repo.tag()
    repo.change()
    repo.tell(f"- `w-1.0` rounds down: {_PULL}")
    repo.commit()
    repo.tag("1.1")
    done = repo.check("--json")
    assert done.code == 0, done.out
    assert done.facts["since"] == "1.1"


def test_an_entry_of_the_tag_is_no_new_one(repo: Repo) -> None:
    """It was there before the change, so it cannot tell it."""
    repo.tell(f"- `w-1.0` rounds down: {_PULL}")
    repo.commit()
    repo.tag()
    repo.change()
    assert "no new entry names it" in repo.check().err


@pytest.mark.parametrize("name", ["w-1.0.1", "w-1.0-rc", "xw-1.0", "w-1x0"])
def test_another_name_is_not_the_target(repo: Repo, name: str) -> None:
    repo.tag()
    repo.change()
    repo.tell(f"- {name}: {_PULL}")
    assert "no new entry names it" in repo.check().err


def test_a_target_that_is_gone_is_told(repo: Repo) -> None:
    repo.tag()
    text = repo.targets.read_text()
    start = text.index('[[target]]\nname = "w-dev"')
    repo.targets.write_text(text[:start])
    assert "w-dev is gone, and no new entry names it" in repo.check().err
    repo.tell(f"- w-dev is gone: {_PULL}")
    done = repo.check("--json")
    assert done.code == 0, done
    assert done.facts["changed"][0]["after"] is None


def test_real_links(repo: Repo) -> None:
    repo.tag()
    repo.change()
    for link in (
        "https://forge.dev/a/b/issues/3",
        "https://forge.dev/a/b/pull/3#issuecomment-1",
        "[the change](https://gitlab.forge.dev/group/sub/b/-/merge_requests/7)",
        "<https://forge.dev/a/b/commit/0a1b2c3>",
        "https://forge.dev/a/b/releases/tag/v2",
        "https://forge.dev/widgets/widget/releases/tag/v1.0",
        "https://pypi.org/project/widget-kit/1.0/",
        "https://pypi.org/project/another/2.1",
    ):
        repo.tell(f"- `w-1.0`: rounds down, see {link}.")
        done = repo.check()
        assert done.code == 0, (link, done.err)


def test_links_that_lead_nowhere(repo: Repo) -> None:
    repo.tag()
    repo.change()
    for link in (
        "no link",
        "https://forge.dev/a/b/pull/",
        "https://forge.dev/a/b/pull/0",
        "https://forge.dev/a/b/pull/NNN",
        "https://forge.dev/a/b/commit/0000000",
        "https://forge.dev/a/b/commit/main",
        "https://forge.dev/a/b",
        "http://forge.dev/a/b/pull/3",
        "https://example.com/a/b/pull/3",
        "https://forge.example.org/a/b/pull/3",
        "https://forge.invalid/a/b/pull/3",
        "https://localhost/a/b/pull/3",
        # Of the target's own upstream, and of another release than the target's.
        "https://forge.dev/widgets/widget/releases/tag/v1.1",
        "https://pypi.org/project/Widget_Kit/1.1/",
        "https://pypi.org/project/widget-kit/",
    ):
        repo.tell(f"- `w-1.0`: rounds down, see {link}")
        done = repo.check()
        assert done.code == 8, link
        assert "line 5: the entry that names w-1.0 links to no issue" in done.err


@pytest.mark.parametrize("word", ["TBD", "tbd", "TODO:", "(XXX)", "FIXME"])
def test_an_unfinished_entry(repo: Repo, word: str) -> None:
    """Of whatever it tells: InferenceX#2639's was valid YAML."""
    repo.tag()
    repo.tell(f"- A new option.\n\n  {word}")
    done = repo.check()
    assert done.code == 8
    assert "line 5: the entry still says" in done.err


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("in one entry", "in an entry", "the section of 1.0 differs from what it was at 1.0"),
        (
            "## 1.0 - 2026-01-02",
            "## 1.0 - 2026-01-03",
            "the section of 1.0 differs from what it was",
        ),
        ("## 1.0 - 2026-01-02\n", "", "the section of 1.0 is gone at 1.0"),
        ("releases/tag/1.0", "releases/tag/1.1", "the link 1.0 differs from what it was at 1.0"),
    ],
)
def test_history_stays(repo: Repo, old: str, new: str, fault: str) -> None:
    repo.tag()
    assert old in _FIRST
    repo.changelog.write_text(_FIRST.replace(old, new))
    done = repo.check()
    assert done.code == 8
    assert fault in done.err


def test_line_ends_are_history_too(repo: Repo) -> None:
    repo.tag()
    repo.changelog.write_bytes(_FIRST.replace("one entry:\n", "one entry:\r\n").encode())
    assert "the section of 1.0 differs from what it was" in repo.check().err


def test_a_new_release_leaves_history_alone(repo: Repo) -> None:
    repo.tag()
    repo.change()
    text = _FIRST.replace(
        "## Unreleased\n", f"## Unreleased\n\n## 1.1 - 2026-02-01\n\n- `w-1.0`: {_PULL}\n"
    )
    repo.changelog.write_text(f"{text}[1.1]: https://forge.dev/widgets/pkg/releases/tag/1.1\n")
    assert repo.check().code == 0


def test_a_shallow_clone_proves_nothing(repo: Repo, tmp_path: Path) -> None:
    repo.tag()
    repo.change()
    repo.commit()
    clone = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo.root}", clone)
    done = call("changelog", "check", "--catalog", clone / "ours/targets.toml")
    assert done.code == 8
    assert "is a shallow clone" in done.err
    assert "git fetch --unshallow --tags" in done.err


def test_what_cannot_be_checked(repo: Repo) -> None:
    repo.changelog.unlink()
    done = repo.check()
    assert done.code == 6
    assert f"there is no {repo.changelog}" in done.err
    assert "next: write one" in done.err
    shutil.rmtree(repo.root / ".git")
    done = repo.check()
    assert done.code == 2
    assert "is not in a git repository" in done.err
    assert "git init" in done.err


def test_before_the_first_commit_there_is_no_tag(repo: Repo) -> None:
    shutil.rmtree(repo.root / ".git")
    git(repo.root, "init", "--quiet")
    done = repo.check("--json")
    assert done.code == 0, done
    assert (done.facts["since"], len(done.facts["changed"])) == (None, 3)


def test_a_tag_before_the_catalog(repo: Repo) -> None:
    """Every series is new then."""
    git(repo.root, "rm", "-r", "--quiet", "ours")
    repo.commit()
    repo.tag()
    git(repo.root, "checkout", "--quiet", "HEAD~", "--", "ours")
    assert len(repo.check("--json").facts["changed"]) == 3


def test_a_tag_whose_catalog_lacks_its_series(repo: Repo) -> None:
    """As where ``.gitignore`` has a name of a folder in ``patches``."""
    git(repo.root, "rm", "--quiet", "-r", "--cached", repo.targets.parent / "patches")
    git(repo.root, "commit", "--quiet", "--message", "without them")
    repo.tag()
    done = repo.check()
    assert done.code == 6
    assert "the catalog at 1.0 cannot be read: ours/" in done.err
    assert "there is no series ours/patches/widget/" in done.err


def test_the_project_itself_is_ready() -> None:
    """Where it is a checkout with its history; CI's lint step asks the same."""
    done = call("changelog", "check")
    if "is not a git repository" in done.err or "is a shallow clone" in done.err:
        pytest.skip(done.err)
    assert done.code == 0, done.err
