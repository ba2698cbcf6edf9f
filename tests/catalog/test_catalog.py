"""targets.toml, series files and locks: read strictly, and refused with file, key and line."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from commands import call

from pkgtools.catalog import find_catalog, load_catalog, load_series
from pkgtools.catalog.tomlfile import KeyPlace
from pkgtools.errors import MalformedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project


def _line(path: Path, text: str, occurrence: int = 1) -> int:
    """Return the number of the line that holds `text` for the n-th time."""
    numbers = [n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line]
    return numbers[occurrence - 1]


@pytest.mark.parametrize(
    ("old", "new", "key", "at", "message"),
    [
        ('series = "v1.0"', 'serie = "v1.0"', "target[0].serie", "serie =", "unknown field"),
        ('git = "', 'gitt = "', "upstream[0].gitt", "gitt =", "unknown field `gitt`"),
        ('name = "w-1.1"', 'name = "w-1.0"', "target[1].name", 'name = "w-1.0"', "a second target"),
        (
            'name = "w-dev-base"',
            'name = "w-1.0"',
            "target[2].alias[0].name",
            'name = "w-1.0"',
            "the alias 'w-1.0' shadows the target",
        ),
        (
            'name = "w-dev-short"',
            'name = "w-dev-base"',
            "target[2].alias[1].name",
            'name = "w-dev-base"',
            "a second alias",
        ),
        ('series = "v1.1"', 'series = "v9"', "target[1].series", 'series = "v9"', "no series"),
        ('series = "v1.1"', 'series = "../v1.1"', "target[1].series", "../v1.1", "no series"),
        (
            'upstream = "widget"',
            'upstream = "gadget"',
            "target[0].upstream",
            "gadget",
            "no upstream",
        ),
        ('default = "w-1.1"', 'default = "w-9"', "default", "w-9", "no target 'w-9'"),
        ('prefix = "src/"', 'prefix = "src"', "upstream[0].prefix", "prefix", "a / at its end"),
        ('prefix = "src/"', 'prefix = "../"', "upstream[0].prefix", "prefix", "relative path"),
        ('package = "widget"', 'package = "wid.get"', "upstream[0].package", "package", "import"),
        ('name = "w-1.1"', "name = 11", "target[1].name", "name = 11", "Expected `str`"),
        ('version = "1.0"', 'version = "one"', "target[0].release", '"one"', "Invalid version"),
        (
            'release = { version = "1.0", tag = "v1.0" }',
            "",
            "target[0]",
            "[[target]]",
            "either a commit or a release",
        ),
    ],
)
def test_a_wrong_catalog_is_refused_with_key_and_line(
    project: Project, tmp_path: Path, old: str, new: str, key: str, at: str, message: str
) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text()
    assert old in text
    targets.write_text(text.replace(old, new, 1))
    with pytest.raises(MalformedError) as caught:
        load_catalog(targets)
    # Where the same text stood before, the wrong one is the second.
    occurrence = 2 if text.count(at) and at.startswith("name") else 1
    expected = f"{targets}:{_line(targets, at, occurrence)}: {key}: "
    assert caught.value.message.startswith(expected), caught.value.message
    assert message in caught.value.message
    assert caught.value.exit_code == 6


@pytest.mark.parametrize("digits", [39, 41, 12])
def test_a_commit_has_40_digits(project: Project, tmp_path: Path, digits: int) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    commit = project.commits["dev"]
    targets.write_text(targets.read_text().replace(commit, (commit + "0" * 9)[:digits]))
    line = _line(targets, "commit = ")
    with pytest.raises(MalformedError, match=rf":{line}: target\[2\].commit: .* here {digits}"):
        load_catalog(targets)


@pytest.mark.parametrize("digits", [0, 39, 41])
def test_an_aliass_commit_has_40_digits_too(project: Project, tmp_path: Path, digits: int) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    commit = project.commits["dev-base"]
    targets.write_text(targets.read_text().replace(commit, (commit + "0")[:digits]))
    line = _line(targets, "commit = ", 2)
    key = r"target\[2\]\.alias\[0\]\.commit"
    with pytest.raises(MalformedError, match=rf":{line}: {key}: .* here {digits}"):
        load_catalog(targets)


def test_a_syntax_error_names_the_line(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    targets.write_text(targets.read_text() + "\n[[target]\n")
    line = _line(targets, "[[target]", 4)
    with pytest.raises(MalformedError, match=rf"targets\.toml:{line}: "):
        load_catalog(targets)


def test_an_unknown_name_offers_the_nearest(project: Project) -> None:
    with pytest.raises(UsageError) as caught:
        project.catalog().target("w-dev-bose")
    assert caught.value.remedy == "did you mean w-dev-base or w-dev-short or w-dev?"


def test_an_alias_is_its_target(project: Project) -> None:
    catalog = project.catalog()
    target = catalog.target("w-dev-base")
    assert target is catalog.target("w-dev")
    base, dev = (target.revision_of(name) for name in ("w-dev-base", "w-dev"))
    assert base is not None
    assert dev is not None
    assert (base.commit, dev.commit) == (project.commits["dev-base"], project.commits["dev"])
    assert target.revision_of("w-dev-short") is None


def test_the_catalog_is_found_upward(project: Project) -> None:
    below = project.targets.parent / "patches" / "widget"
    assert find_catalog(below) == project.targets


def test_without_one_above_it_is_the_packaged(tmp_path: Path) -> None:
    found = load_catalog(find_catalog(tmp_path))
    assert "kimi-k3-ee560a2" in {target.name for target in found.targets}


def _series(project: Project, tmp_path: Path) -> Path:
    targets = project.copy_catalog(tmp_path / "catalog")
    return targets.parent / "patches" / "widget" / "v1.0"


def test_a_patch_that_the_series_does_not_name_is_refused(project: Project, tmp_path: Path) -> None:
    folder = _series(project, tmp_path)
    (folder / "0009-stray.patch").write_text("")
    with pytest.raises(MalformedError, match=r"0009-stray\.patch is not named in"):
        load_series(folder)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0009-none.patch", "cannot be read"),
        ("../v1.1/series", "is not the name of a patch"),
        ("series", "is this list, not a patch"),
        ("0001-x.patch -R", "-R cannot follow a patch"),
        ("0001-x.patch -p1 -p1", "-p1 -p1 cannot follow a patch"),
    ],
)
def test_a_wrong_series_file_is_refused_with_its_line(
    project: Project, tmp_path: Path, line: str, message: str
) -> None:
    folder = _series(project, tmp_path)
    listing = folder / "series"
    listing.write_text(f"# in this order\n{line}\n{listing.read_text()}")
    with pytest.raises(MalformedError, match=rf"{re.escape(str(listing))}:2: .*{message}"):
        load_series(folder)


def test_a_strangers_file_of_that_name_is_not_the_end(tmp_path: Path) -> None:
    (tmp_path / "targets.toml").write_text("[tool]\n")
    with pytest.raises(MalformedError, match="unknown field `tool`") as caught:
        load_catalog(tmp_path / "targets.toml")
    assert "--catalog" in str(caught.value.remedy)


def test_a_folder_without_a_list_says_how_one_is_made(project: Project, tmp_path: Path) -> None:
    folder = _series(project, tmp_path)
    (folder / "series").unlink()
    with pytest.raises(MalformedError, match="series is missing") as caught:
        load_series(folder)
    assert "ls *.patch > series" in str(caught.value.remedy)


def test_a_series_that_names_a_patch_twice_is_refused(project: Project, tmp_path: Path) -> None:
    folder = _series(project, tmp_path)
    listing = folder / "series"
    names = listing.read_text().split()
    listing.write_text("\n".join([*names, names[0]]))
    with pytest.raises(MalformedError, match=rf":{len(names) + 1}: a second patch"):
        load_series(folder)


def test_comments_and_blank_lines_change_no_digest(project: Project, tmp_path: Path) -> None:
    folder = _series(project, tmp_path)
    before = load_series(folder).digest
    listing = folder / "series"
    listing.write_text("# why\n\n" + listing.read_text().replace("\n", "  # so\n"))
    assert load_series(folder).digest == before


def test_the_order_and_every_byte_of_a_patch_change_the_digest(
    project: Project, tmp_path: Path
) -> None:
    folder = _series(project, tmp_path)
    listing = folder / "series"
    names = listing.read_text().split()
    digests = {load_series(folder).digest}
    listing.write_text("\n".join(reversed(names)))
    digests.add(load_series(folder).digest)
    patch = folder / names[0]
    patch.write_bytes(patch.read_bytes().replace(b"A reason.", b"A reason!"))
    digests.add(load_series(folder).digest)
    assert len(digests) == 3


def test_a_stale_lock_is_refused_with_what_to_do(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    patch = next((targets.parent / "patches" / "widget" / "v1.0").glob("0001-*"))
    patch.write_bytes(patch.read_bytes().replace(b"A reason.", b"A reason!"))
    catalog = load_catalog(targets)
    with pytest.raises(MalformedError, match="the series changed since it was locked") as caught:
        _ = catalog.target("w-1.0").lock
    assert "lock.toml:4: series:" in caught.value.message
    assert caught.value.remedy is not None
    assert "pkgtools lock --target w-1.0" in caught.value.remedy


def test_a_broken_target_does_not_keep_others_from_being_used(
    project: Project, tmp_path: Path
) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    shutil.rmtree(targets.parent / "patches" / "widget" / "v1.1")
    (targets.parent / "patches" / "widget" / "v1.1").mkdir()
    (targets.parent / "patches" / "widget" / "v1.1" / "series").write_text("")
    catalog = load_catalog(targets)
    assert [target.name for target in catalog.sound_targets] == ["w-1.0", "w-dev"]
    assert "the series was never proven" in catalog.problems["w-1.1"].message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1", "version = 2", "version"),
        ("before = ", "befor = ", "unknown field `befor`"),
        ("version = 1", "version = 1\nextra = 1", "unknown field `extra`"),
    ],
)
def test_a_wrong_lock_is_refused(
    project: Project, tmp_path: Path, old: str, new: str, message: str
) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    lock = targets.parent / "patches" / "widget" / "v1.0" / "lock.toml"
    lock.write_text(lock.read_text().replace(old, new, 1))
    catalog = load_catalog(targets)
    with pytest.raises(MalformedError, match=message) as caught:
        _ = catalog.target("w-1.0").lock
    assert caught.value.message.startswith(f"{lock}:{_line(lock, new.splitlines()[-1])}: ")


_SET = '[[set]]\nname = "all"\ntargets = ["w-1.0", "w-dev"]\n'


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ('"w-dev"]', '"w-9"]', "set[0].targets", "there is no target 'w-9'"),
        ('"w-dev"]', '"w-1.0"]', "set[0].targets", "it names a target twice"),
        ('["w-1.0", "w-dev"]', "[]", "set[0].targets", "length >= 1"),
        ('"all"', '"w-1.0"', "set[0].name", "the set 'w-1.0' shadows the target"),
        ('"all"', '"w-dev-base"', "set[0].name", "the set 'w-dev-base' shadows the alias"),
        ('"all"', '"a b"', "set[0].name", "'a b' is not a name"),
        ("targets", "target", "set[0].target", "unknown field"),
        ("[[set]]", _SET + "[[set]]", "set[1].name", "a second set 'all'"),
    ],
)
def test_a_wrong_set_is_refused_with_key_and_line(
    old: str, new: str, key: str, message: str, project: Project, tmp_path: Path
) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    with targets.open("a") as file:
        file.write(_SET.replace(old, new))
    with pytest.raises(MalformedError, match=re.escape(message)) as caught:
        load_catalog(targets)
    assert isinstance(caught.value.details, KeyPlace)
    assert caught.value.details.key == key


def test_a_set_is_its_targets_in_order_each_once(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    with targets.open("a") as file:
        file.write(_SET)
    catalog = load_catalog(targets)
    assert catalog.expanded(["all"]) == ["w-1.0", "w-dev"]
    assert catalog.expanded(["w-dev-base", "all", "w-1.1"]) == ["w-dev-base", "w-1.0", "w-1.1"]
    assert catalog.expanded(["w-dev-base"]) == ["w-dev-base"]
    with pytest.raises(UsageError, match="all is a set of targets") as caught:
        catalog.target("all")
    assert caught.value.remedy == "name one of them: --target w-1.0 or --target w-dev"
    done = call("targets", "--catalog", targets, "--json")
    assert done.facts["sets"] == [{"name": "all", "targets": ["w-1.0", "w-dev"]}]
    assert "all  set of w-1.0, w-dev" in call("targets", "--catalog", targets).out
    wheel = ("--wheel", project.wheel("1.0"), "--git", project.repository)
    done = call("lock", "--check", "-t", "all", "--catalog", targets, "--json", *wheel)
    assert {(proof["target"], proof["outcome"]) for proof in done.facts} == {
        ("w-1.0", "proven"),
        ("w-dev", "proven"),
    }
