"""What an image says of itself, held against its files."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest
from commands import Result, call

from .building import SYSTEM, build, bytes_of, write_base
from .images import SITE, Entry, entries_of, read, tar, write_archive, write_layout

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

INFO = f"{SITE}/widget_kit-1.0.dist-info"


@pytest.fixture
def honest(project: Project, widget: list[Entry], tmp_path: Path) -> str:
    """Return an image that was built, and is what it says."""
    return build(project.catalog(), write_base(tmp_path / "honest", [SYSTEM, widget])).reference


def _inspect(project: Project, reference: str, *more: str) -> Result:
    return call("image", "inspect", reference, "--json", "--catalog", project.targets, *more)


def _mismatches(done: Result) -> list[str]:
    assert done.code == 8, done.out
    error = done.facts["error"]
    assert error["code"] == "check-failed"
    assert error["remedy"]
    mismatches: list[str] = error["details"]["mismatches"]
    assert all(text in error["message"] for text in mismatches)
    return mismatches


def _relabelled(reference: str, where: Path, **labels: str | None) -> str:
    """Write an image with the same layers and other labels."""
    image = read(reference)
    said = {**image.labels, **{k.replace("__", "."): v for k, v in labels.items()}}
    kept = {key: value for key, value in said.items() if value is not None}
    return write_layout(where, image.layers, kept)


def test_an_honest_image(project: Project, honest: str) -> None:
    done = _inspect(project, honest)
    assert done.code == 0, done.out
    facts = done.facts
    assert facts["reference"] == honest
    assert facts["tree"] == f"/{SITE}"
    assert facts["labels"] == read(honest).labels
    assert (facts["status"]["state"], facts["status"]["target"]) == ("patched", "w-1.0")
    assert facts["status"]["revisions"] == ["1.0"]
    assert facts["mismatches"] == []
    shown = call("image", "inspect", honest, "--catalog", project.targets).out
    assert f"{honest} /{SITE}: w-1.0 (1.0), patched\n" in shown
    assert "  pkgtools.target: w-1.0\n" in shown


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ({"pkgtools__revision": "1.1"}, "revision 1.1"),
        ({"pkgtools__revision": "9.9"}, "revision 9.9"),
        ({"pkgtools__revision": "1.0 1.1"}, "revision 1.0 1.1"),
        ({"pkgtools__revision": ""}, "revision"),
        ({"pkgtools__target": "w-1.1"}, "target w-1.1"),
        ({"pkgtools__target": "nothing"}, "nothing"),
        ({"pkgtools__series": f"sha256:{'0' * 64}"}, f"series sha256:{'0' * 64}"),
        ({"pkgtools__series": None}, "series"),
        ({"pkgtools__patches": "0001-another.patch"}, "patches"),
        ({"pkgtools__patches": None}, "patches"),
        ({"pkgtools__upstream": "gadget"}, "upstream gadget"),
        ({"pkgtools__tree": "/elsewhere"}, "tree /elsewhere"),
    ],
    ids=lambda value: next(iter(value.items())) if isinstance(value, dict) else "",
)
def test_a_label_that_lies(
    labels: dict[str, str | None], named: str, project: Project, honest: str, tmp_path: Path
) -> None:
    mismatches = _mismatches(_inspect(project, _relabelled(honest, tmp_path / "lying", **labels)))
    assert any(text.startswith(named) or named in text for text in mismatches)


@pytest.mark.parametrize("label", ["upstream", "target", "tree", "series"])
def test_a_label_adds_no_line_to_a_refusal(
    label: str, project: Project, honest: str, tmp_path: Path
) -> None:
    """A CI system takes a line that begins with two colons as an order."""
    lying = _relabelled(honest, tmp_path / "lying", **{f"pkgtools__{label}": "w-1.0\n::error::x"})
    done = call("image", "inspect", lying, "--catalog", project.targets)
    assert done.code == 8
    assert "\\n::error::x" in done.err
    assert "\n::error::x" not in done.err


def test_a_label_adds_no_line_to_what_is_next(
    project: Project, honest: str, tmp_path: Path
) -> None:
    said = {"org__opencontainers__image__base__name": "base\n::error::x"}
    again = _relabelled(honest, tmp_path / "again", **said)
    where = ("--base", again, "--catalog", project.targets)
    done = call("build", "image", "--target", "w-1.0", *where)
    assert done.code == 2
    assert r"built on: base\u000a::error::x" in done.err


def test_labels_on_files_that_are_not_patched(
    project: Project, widget: list[Entry], honest: str, tmp_path: Path
) -> None:
    said = read(honest).labels
    lying = write_layout(tmp_path / "lying", [tar(widget)], said)
    assert any("w-1.0" in lie for lie in _mismatches(_inspect(project, lying)))


def test_labels_on_files_that_were_edited(project: Project, honest: str, tmp_path: Path) -> None:
    edit = tar([Entry(f"{SITE}/widget/answer.py", b"ANSWER = 40\n")])
    image = read(honest)
    lying = write_layout(tmp_path / "lying", [*image.layers, edit], image.labels)
    _mismatches(_inspect(project, lying))


def _forged(honest: str, **changes: object) -> bytes:
    """Return a layer with a receipt that says what it is told to."""
    with tarfile.open(fileobj=io.BytesIO(read(honest).layers[-1])) as archive:
        file = archive.extractfile(f"{INFO}/pkgtools.json")
        assert file is not None
        receipt = json.load(file)
    return tar([Entry(f"{INFO}/pkgtools.json", json.dumps({**receipt, **changes}).encode())])


def test_a_forged_receipt_on_files_that_are_not_patched(
    project: Project, widget: list[Entry], honest: str, tmp_path: Path
) -> None:
    said = read(honest).labels
    layers = [tar(widget), _forged(honest, files=[], record=None)]
    _mismatches(_inspect(project, write_layout(tmp_path / "lying", layers, said)))


def test_a_forged_receipt_and_ocis_words(
    project: Project, widget: list[Entry], honest: str, tmp_path: Path
) -> None:
    """No label of ours: the commit that a scanner reads is another's, and the receipt agrees."""
    commit = project.commits["dev"]
    forged = _forged(honest, files=[], record=None, revisions=[commit], target="w-dev")
    labels = {"org.opencontainers.image.revision": commit}
    lying = write_layout(tmp_path / "lying", [tar(widget), forged], labels)
    assert any(commit in lie for lie in _mismatches(_inspect(project, lying)))


@pytest.mark.parametrize("target", ["w-1.0", "nothing"])
def test_a_forged_receipt_alone(
    target: str, project: Project, widget: list[Entry], honest: str, tmp_path: Path
) -> None:
    """No label at all: what the receipt says of files that it does not name is no proof."""
    forged = _forged(honest, files=[], record=None, target=target, series=f"sha256:{'0' * 64}")
    lying = write_layout(tmp_path / "lying", [tar(widget), forged])
    assert any(target in lie for lie in _mismatches(_inspect(project, lying)))


def test_an_unlabelled_image(project: Project, widget: list[Entry], tmp_path: Path) -> None:
    layer = tar(widget)
    layout = write_layout(tmp_path / "image 0", [layer])
    for image in (layout, write_archive(tmp_path / "image 1", [layer])):
        done = _inspect(project, image)
        assert done.code == 0, done.out
        assert done.facts["labels"] == {}
        assert (done.facts["status"]["state"], done.facts["mismatches"]) == ("pristine", [])
    base = f"docker-archive:{tmp_path / 'image 1'}"
    shown = call("image", "inspect", base, "--catalog", project.targets).out
    assert "  it has no labels of pkgtools\n" in shown


@pytest.mark.parametrize(
    ("tree", "said", "is_true"),
    [
        ("dev", "dev", True),
        ("dev", "dev-base", True),  # which has the same touched files
        ("1.0", "dev", False),
        ("1.1", "dev-base", False),
    ],
)
def test_ocis_word_for_the_revision(
    tree: str, said: str, is_true: bool, project: Project, tmp_path: Path
) -> None:
    source = project.write_archive(tmp_path / "tree", tree)
    labels = {"org.opencontainers.image.revision": project.commits[said]}
    layer = tar(entries_of(source, "opt/widget"))
    done = _inspect(project, write_layout(tmp_path / "image", [layer], labels))
    if is_true:
        assert done.code == 0, done.out
    else:
        (lie,) = _mismatches(done)
        assert project.commits[said] in lie


def test_a_revision_of_something_else_is_no_lie(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """Many images carry the commit of the repository that their Dockerfile lies in."""
    for number, word in enumerate(("0" * 40, "main", "")):
        labels = {"org.opencontainers.image.revision": word}
        image = write_layout(tmp_path / str(number), [tar(widget)], labels)
        assert _inspect(project, image).code == 0


def test_both_words_for_the_revision_are_held_against_the_files(
    project: Project, honest: str, tmp_path: Path
) -> None:
    said = {"org__opencontainers__image__revision": project.commits["dev"]}
    (lie,) = _mismatches(_inspect(project, _relabelled(honest, tmp_path / "lying", **said)))
    assert project.commits["dev"] in lie


def test_an_image_of_an_older_series_cannot_be_checked(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """The catalog has its files no more, so nothing vouches for them."""
    older = build(project.catalog(), write_base(tmp_path / "base", [widget])).reference
    unlabelled = write_layout(tmp_path / "unlabelled", read(older).layers)
    for image in (older, unlabelled):
        done = call("image", "inspect", image, "--json", "--catalog", project.changed_targets)
        (lie,) = _mismatches(done)
        assert "is patched with an older series of w-1.0" in lie
        assert done.facts["error"]["details"]["status"]["is_current"] is False


def test_an_image_of_a_checkout(project: Project, tmp_path: Path) -> None:
    source = project.write_archive(tmp_path / "tree", "dev")
    base = write_base(tmp_path / "base", [entries_of(source, "opt/widget")])
    built = build(project.catalog(), base, target="w-dev")
    done = _inspect(project, built.reference)
    assert done.code == 0, done.out
    assert done.facts["status"]["target"] == "w-dev"
    assert done.facts["tree"] == "/opt/widget/src"


def test_an_image_without_the_package_is_refused(project: Project, tmp_path: Path) -> None:
    done = _inspect(project, write_layout(tmp_path / "image", [tar(SYSTEM)]))
    assert (done.code, done.facts["error"]["code"]) == (2, "usage")


def test_it_changes_nothing(project: Project, honest: str, tmp_path: Path) -> None:
    before = bytes_of(tmp_path / "honest")
    _inspect(project, honest)
    assert bytes_of(tmp_path / "honest") == before


def test_what_the_files_are_is_told(project: Project, honest: str, tmp_path: Path) -> None:
    """Of patched files: what they were before, too; else that the catalog knows none."""
    said = {"pkgtools__revision": "1.1"}
    told = "revision 1.1, the files are those of 1.0"
    assert told in _mismatches(_inspect(project, _relabelled(honest, tmp_path / "lying", **said)))
    commit = project.commits["dev"]
    said = {"org__opencontainers__image__revision": commit}
    told = f"org.opencontainers.image.revision {commit}, the files are those of 1.0"
    lying = _relabelled(honest, tmp_path / "commit", **said)
    assert told in _mismatches(_inspect(project, lying))
    unknown = _relabelled(honest, tmp_path / "other", org__opencontainers__image__revision="0" * 40)
    assert _inspect(project, unknown).code == 0
