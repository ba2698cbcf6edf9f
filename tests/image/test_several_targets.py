"""Images with series of several targets: one layer, and labels and a receipt for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalogs import write_catalog
from commands import Result, call
from several import Two, make_site

from .building import SYSTEM, write_base
from .fake_registry import fake_registry
from .images import SITE, Entry, entries_of, read, unpack, write_layout

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project


@pytest.fixture
def two(tmp_path: Path) -> Two:
    """Install alpha and beta, with a set of both."""
    site = make_site(tmp_path)
    with site.targets.open("a") as file:
        file.write('[[set]]\nname = "both"\ntargets = ["alpha-1", "beta-1"]\n')
    return site


def _build(targets: Path, base: str, *more: str | Path) -> Result:
    return call("build", "image", "--base", base, "--json", "--catalog", targets, *more)


def _inspect(targets: Path, reference: str) -> Result:
    return call("image", "inspect", reference, "--json", "--catalog", targets)


def test_one_layer_has_both_packages_as_apply_makes_them(two: Two, tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", [SYSTEM, entries_of(two.root)])
    done = _build(two.targets, base, "--target", "both", "--attest", tmp_path / "attest")
    assert done.code == 0, done.out
    built = done.facts
    assert [built["target"], *(each["target"] for each in built["also"])] == ["alpha-1", "beta-1"]
    assert len(built["attestations"]) == 4
    image = read(built["reference"])
    assert len(image.layers) == 3
    made = unpack(built["reference"], tmp_path / "made")
    assert two.do("apply", "--target", "both").code == 0
    for path in two.root.rglob("*"):
        if path.is_file():
            name = path.relative_to(two.root)
            assert (made / name).read_bytes() == path.read_bytes(), name
    assert image.labels["pkgtools.target"] == "alpha-1"
    second = {k: v for k, v in image.labels.items() if k.startswith("pkgtools.2.")}
    assert second["pkgtools.2.target"] == "beta-1"
    assert second["pkgtools.2.patches"] == "x.patch"
    assert second["pkgtools.2.tree"] == f"/{SITE}"
    found = _inspect(two.targets, built["reference"])
    assert found.code == 0, found.out
    assert [s["target"] for s in (found.facts["status"], *found.facts["also"])] == [
        "alpha-1",
        "beta-1",
    ]
    again = _build(two.targets, base, "-t", "alpha-1", "-t", "beta-1", "--tag", built["reference"])
    assert again.facts["digest"] == built["digest"]
    refused = _build(two.targets, built["reference"], "--target", "both").facts["error"]["message"]
    assert [f"is patched with {name}" in refused for name in ("alpha-1", "beta-1")] == [True, True]


def test_both_are_patched_in_a_registry_too(two: Two, tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", [SYSTEM, entries_of(two.root)])
    facts = tmp_path / "facts"
    with fake_registry() as registry:
        source = registry.push_layout(base, "base:1")
        expected = _build(two.targets, base, "--target", "both").facts
        options = ("--target", "both", "-o", facts, "--catalog", two.targets)
        assert call("image", "facts", source, *options).code == 0
        del registry.asked[:]
        (tmp_path / "cache").mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
            new = f"docker://{registry.address}/base:new"
            done = _build(two.targets, source, "--target", "both", "--tag", new, "--facts", facts)
        assert done.code == 0, done.out
        assert registry.layers_read() == []
        assert done.facts["layer"] == expected["layer"]
        found = _inspect(two.targets, new)
    targets = [each["target"] for each in (found.facts["status"], *found.facts["also"])]
    assert targets == ["alpha-1", "beta-1"]


def test_a_label_of_the_second_that_lies(two: Two, tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", [entries_of(two.root)])
    image = read(_build(two.targets, base, "--target", "both").facts["reference"])
    said = {**image.labels, "pkgtools.2.series": "sha256:0"}
    done = _inspect(two.targets, write_layout(tmp_path / "lies", image.layers, said))
    assert done.code == 8
    assert "series sha256:0" in done.facts["error"]["message"]
    done = _inspect(two.targets, write_layout(tmp_path / "bare", read(base).layers, image.labels))
    assert "beta-1 (1.0), pristine" in done.facts["error"]["message"]


def test_one_that_does_not_apply_keeps_the_other_out(two: Two, tmp_path: Path) -> None:
    (two.root / "beta/__init__.py").write_text("A = 9\n")
    base = write_base(tmp_path / "base", [entries_of(two.root)])
    done = _build(two.targets, base, "--target", "both")
    assert done.code == 5
    assert "beta/__init__.py" in done.facts["error"]["message"]


def test_labels_of_a_series_on_an_image_that_has_another(
    project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    """The one below stays in the image, so its labels stay too."""
    far = {"widget/core.py": ("return max(values)", "return 1 + max(values)")}
    other = write_catalog(project, tmp_path / "other", far)
    base = write_base(tmp_path / "base", [widget])
    first = _build(project.targets, base, "--target", "w-1.0").facts["reference"]
    done = _build(other, first, "--target", "other-1.0")
    assert done.code == 0, done.out
    labels = read(done.facts["reference"]).labels
    assert (labels["pkgtools.target"], labels["pkgtools.2.target"]) == ("w-1.0", "other-1.0")
