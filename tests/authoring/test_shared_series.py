"""`import` and `port` of series with shared patches: a reference where the change is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from sharing import ADDED, RELEASES, A, make_sharing, options
from silent import Silent
from small import make_small

from pkgtools.catalog import load_catalog, load_series
from pkgtools.report.matrix import build_matrix
from pkgtools.source.at_hand import AtHand

if TYPE_CHECKING:
    from pathlib import Path

    from small import Small


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return make_sharing(tmp_path / "small")


@pytest.mark.parametrize("given", [["--from", "1.2"], []])
def test_import_refers_to_a_shared_patch_that_makes_the_same(
    small: Small, tmp_path: Path, given: list[str]
) -> None:
    """The mails have other bytes, lines and context; without a source the context must be alike."""
    mails = tmp_path / "mails"
    words: list[str | Path] = ["export", "--series", "two", "--format", "mail", "-o", mails]
    assert call(*words, *options(small)).code == 0
    limit = mails / "0002-limit-one-more.patch"
    if given:  # git's own context differs from the shared patch's: only the effect is the same
        assert call(*words[:2], "three", *words[3:-1], tmp_path / "3", *options(small)).code == 0
        limit.write_bytes((tmp_path / "3" / "0001-limit-one-more.patch").read_bytes())
    new = small.series.parent / "new"
    done = call("import", mails, "-o", new, *given, *options(small), "--json")
    assert done.code == 0, done.err
    second = "../limit.patch" if given else "0002-limit-one-more.patch"
    assert (new / "series").read_text().split() == ["../extra/", second]
    assert done.facts["patches"] == ["../extra/", second]
    assert [path.name for path in new.glob("*.patch")] == ([] if given else [limit.name])
    version = "1.2" if given else "1.1"
    assert small.made(new, version) == small.made(small.series.parent / "two", version)


def test_import_outside_the_catalog_copies(small: Small, tmp_path: Path) -> None:
    new = tmp_path / "new"
    done = call("import", small.series, "-o", new, "--from", "1.0", *options(small), "--json")
    assert done.code == 0, done.err
    assert not any(patch.is_shared for patch in load_series(new).patches)
    assert small.made(new, "1.0") == small.made(small.series, "1.0")


def test_port_keeps_references(small: Small, tmp_path: Path) -> None:
    new = small.series.parent / "next"
    done = small.port("--series", "one", "--to", "1.2", "-o", new, "--json")
    assert done.code == 0, done.err
    assert done.facts["patches"] == ["../extra/", "0001-own.patch", "../limit.patch"]
    assert (new / "series").read_text().split() == done.facts["patches"]
    assert [path.name for path in new.glob("*.patch")] == ["0001-own.patch"]
    outside = tmp_path / "outside"
    done = small.port("--series", "one", "--to", "1.2", "-o", outside, "--json")
    assert done.facts["patches"] == ["extra.patch", "0001-own.patch", "limit.patch"]
    assert small.made(outside, "1.2") == small.made(new, "1.2")


def test_port_copies_a_shared_patch_only_where_it_must(tmp_path: Path) -> None:
    """The new release reformats what is beside an insertion: the shared context is gone."""
    small = make_sharing(tmp_path / "small")
    moved = A.replace("A_5 = 5\n", "A_5 = 5  # five\n")
    other = make_small(
        tmp_path / "other", {"1.0": {"a.py": A, "b.py": A}, "1.1": {"a.py": moved, "b.py": A}}, []
    )
    new = small.series.parent / "next"
    words: list[str | Path] = ["port", "--series", "one", "--from", other.wheel("1.0")]
    done = call(*words, "--to", other.wheel("1.1"), "-o", new, "--catalog", small.catalog, "--json")
    assert done.code == 0, done.out + done.err
    assert done.facts["patches"] == ["../extra/", "0001-own.patch", "limit.patch"]
    patches = load_series(new).patches
    assert [patch.is_shared for patch in patches] == [True, False, False]
    made = other.made(new, "1.1")
    assert b"A_5 = 5  # five\nLIMIT = 1\nA_6 = 6\n" in (made["src/widget/a.py"] or b"")
    assert made[ADDED] == b"ADDED = 1\nMORE = 2\n"


def test_a_shared_patch_can_be_absorbed(small: Small) -> None:
    """The target says so by the patch's place in the upstream's folder."""
    text = small.catalog.read_text()
    small.catalog.write_text(f'{text}absorbed = ["none.patch"]\n')
    assert "there is no patch" in call("targets", "--catalog", small.catalog).err
    small.catalog.write_text(f'{text}absorbed = ["extra"]\n')
    done = call("lock", *options(small), "--target", "three")
    assert done.code == 8
    assert "extra" in done.err


def test_the_report_has_one_row_for_a_shared_patch(small: Small) -> None:
    assert call("lock", *options(small)).code == 0
    matrix = build_matrix(load_catalog(small.catalog), AtHand(Silent(), _wheels(small)))
    rows = {row.name: [cell.state if cell else None for cell in row.cells] for row in matrix.rows}
    assert rows == {
        "extra": ["applies", "applies", None],
        "own": ["applies", None, None],
        "limit": ["applies", "moved", "moved"],
    }


def _wheels(small: Small) -> list[Path]:
    return [small.wheel(version) for version in RELEASES]
