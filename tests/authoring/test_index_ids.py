"""`lock` names index lines of patches that disagree with the contents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git
from small import Small, make_small

if TYPE_CHECKING:
    from pathlib import Path

_REST = "#\n" * 6
_PATCHES = [
    ("one", {"a.py": f"a = 2\n{_REST}", "new.py": "n = 1\n"}),
    ("two", {"a.py": f"a = 3\n{_REST}"}),
]
_INDEX = re.compile(rb"^index ([0-9a-f]+)\.\.([0-9a-f]+)", re.MULTILINE)


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Make a series of two patches on one file, and a new file."""
    return make_small(tmp_path, {"1.0": {"a.py": f"a = 1\n{_REST}"}}, _PATCHES)


def _notes(small: Small, *more: str) -> list[str]:
    where = ("--wheel", small.wheel("1.0"), "--catalog", small.catalog)
    done = call("lock", *where, *more, "--json")
    assert done.code == 0, done
    assert call("lock", *where, *more).out.count("  note: ") == len(done.facts[0]["notes"])
    notes: list[str] = done.facts[0]["notes"]
    return notes


def _patch(small: Small, number: int) -> Path:
    return sorted(small.series.glob("*.patch"))[number]


@pytest.mark.parametrize("length", [4, 7, 12, 40])
def test_git_s_own_ids_fit_however_abbreviated(length: int, small: Small) -> None:
    for path in small.series.glob("*.patch"):
        data = path.read_bytes()
        full = [git(small.repository, "rev-parse", i.decode()).strip() for i in _ids(data)]
        for short, whole in zip(_ids(data), full, strict=True):
            data = data.replace(short, whole[:length].encode())
        path.write_bytes(data)
    assert _notes(small) == []
    assert _notes(small, "--check") == []


def _ids(data: bytes) -> list[bytes]:
    return [i for match in _INDEX.findall(data) for i in match if i.strip(b"0")]


@pytest.mark.parametrize(("side", "word"), [(0, "changes"), (1, "makes")])
def test_an_id_of_another_content_is_named(side: int, word: str, small: Small) -> None:
    path = _patch(small, 1)
    (ids,) = _INDEX.findall(path.read_bytes())
    path.write_bytes(path.read_bytes().replace(ids[side], b"1234567"))
    (note,) = _notes(small)
    assert note.startswith(f"{path.name}:")
    assert f"src/widget/a.py: the index line says that the patch {word} 1234567, and it is" in note
    assert note.endswith(ids[side][:7].decode())


def test_a_patch_that_was_edited_by_hand_is_named(small: Small) -> None:
    path = _patch(small, 0)
    path.write_bytes(path.read_bytes().replace(b"+n = 1", b"+n = 9"))
    (note,) = _notes(small)
    assert "src/widget/new.py: the index line says that the patch makes" in note


def test_a_patch_for_several_revisions_fits_one_of_them(small: Small) -> None:
    """The others have other contents around the hunks."""
    with small.catalog.open("a") as file:
        file.write(f'[[target.alias]]\nname = "other"\ncommit = "{_other(small)}"\n')
    done = call(
        *("lock", "--wheel", small.wheel("1.0"), "--git", small.repository),
        *("--catalog", small.catalog, "--json"),
    )
    assert [proof["outcome"] for proof in done.facts] == ["proven", "proven"]
    assert [proof["notes"] for proof in done.facts] == [[], []]


def _other(small: Small) -> str:
    path = small.repository / "src/widget/a.py"
    path.write_text(f"a = 1\n{_REST}b = 1\n")
    git(small.repository, "commit", "--quiet", "--all", "--message", "more")
    return git(small.repository, "rev-parse", "HEAD").strip()
