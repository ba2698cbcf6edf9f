"""The README of a series says how much of the upstream it touches; it is counted here."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from pkgtools.patch import parse_patch
from pkgtools.patch.model import Kind

_SERIES = Path(__file__).parent.parent / "patches" / "sglang"
_BELOW = "python/sglang/srt/"
# | patches | what for | SGLang's files | hunks |, and | file | hunks | what for |
_PURPOSE = re.compile(r"^\| (\d{4}) to (\d{4}) \| .* \| (\d+) \| (\d+) \|$", re.MULTILINE)
_FILE = re.compile(r"^\| `(\S+)` \| (\d+) \| .* \|$", re.MULTILINE)


def _hunks(folder: Path) -> dict[int, Counter[str]]:
    """Return, by a patch's number, how many hunks it has in each of the upstream's files."""
    hunks: dict[int, Counter[str]] = {}
    for path in folder.glob("*.patch"):
        count = hunks[int(path.name[:4])] = Counter[str]()
        for file in parse_patch(path.name, path.read_bytes()).files:
            if file.kind is not Kind.CREATE:
                count[file.old_path] += len(file.hunks)
    return hunks


@pytest.mark.parametrize(
    "folder", [path.parent for path in sorted(_SERIES.glob("*/README.md"))], ids=lambda f: f.name
)
def test_a_series_touches_what_its_readme_says(folder: Path) -> None:
    text = (folder / "README.md").read_text("utf-8")
    hunks = _hunks(folder)
    numbers: list[int] = []
    touched = Counter[str]()
    for row in _PURPOSE.findall(text):
        first, last, files, total = map(int, row)
        touched = sum((hunks[number] for number in range(first, last + 1)), Counter[str]())
        assert (len(touched), touched.total()) == (files, total), row
        numbers += range(first, last + 1)
    assert numbers == sorted(hunks)
    # Capture comes last, and has its files listed one by one.
    assert {f"{_BELOW}{path}": int(number) for path, number in _FILE.findall(text)} == touched


def test_every_series_that_captures_has_one() -> None:
    capturing = {path.parent for path in _SERIES.glob("*/*spec-capture*.patch")}
    assert capturing == {path.parent for path in _SERIES.glob("*/README.md")}
