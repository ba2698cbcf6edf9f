"""What a person finds in ``conflicts/``: of whole files, and of one hunk beside clean ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from small import make_small

from pkgtools.patch import parse_patch

if TYPE_CHECKING:
    from pathlib import Path

    from small import Small

_LINES = [f"line_{number} = {number}\n" for number in range(1, 31)]


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkgtools.port.route.released_versions", lambda _: [])


def text(**changed: str) -> str:
    """Return a file of 30 lines, some of them others: ``l5="x"``."""
    lines = list(_LINES)
    for name, line in changed.items():
        lines[int(name[1:]) - 1] = line
    return "".join(lines)


def conflict(small: Small, output: Path, name: str = "a.py") -> Path:
    done = small.port("--series", "one", "--to", "1.1", "-o", output)
    assert done.code == 3, done.out + done.err
    return output.with_name(f"{output.name}.port") / "conflicts/src/widget" / name


def test_one_conflicting_hunk_beside_a_clean_one(tmp_path: Path) -> None:
    """The clean one is merged in the file already; only the other one has markers."""
    small = make_small(
        tmp_path,
        {"1.0": {"a.py": text()}, "1.1": {"a.py": text(l25="line_25 = 'theirs'\n")}},
        [("both", {"a.py": text(l5="line_5 = 'ours'\n", l25="line_25 = 'ours'\n")})],
    )
    found = conflict(small, tmp_path / "new").read_text()
    before, marker, rest = found.partition("<<<<<<< ")
    assert marker
    assert before.splitlines(keepends=True) == [
        *_LINES[:4],
        "line_5 = 'ours'\n",
        *_LINES[5:24],
    ]
    marked, _, after = rest.partition(">>>>>>> ")
    assert after.splitlines(keepends=True)[1:] == _LINES[25:]
    kept = {line for line in marked.splitlines(keepends=True) if line.startswith("line_")}
    assert kept == {"line_25 = 'ours'\n", "line_25 = 25\n", "line_25 = 'theirs'\n"}


def test_a_file_that_upstream_removed(tmp_path: Path) -> None:
    """All of it is between markers: ours, base, and nothing of theirs."""
    small = make_small(
        tmp_path,
        {"1.0": {"a.py": "one = 1\n"}, "1.1": {"b.py": "other = 1\n"}},
        [("change", {"a.py": "one = 2\n"})],
    )
    found = conflict(small, tmp_path / "new").read_text().splitlines()
    assert found[0].startswith("<<<<<<< ")
    assert found[-1].startswith(">>>>>>> ")
    middle = found.index("=======")
    base = next(n for n, line in enumerate(found) if line.startswith("||||||| "))
    assert (found[1:base], found[base + 1 : middle], found[middle + 1 : -1]) == (
        ["one = 2"],
        ["one = 1"],
        [],
    )


def test_a_patched_file_that_stays_while_a_like_one_appears(tmp_path: Path) -> None:
    """A copy elsewhere is not where the patch goes: the file is still there."""
    small = make_small(
        tmp_path,
        {
            "1.0": {"a.py": text()},
            "1.1": {"a.py": text(l30="line_30 = 'theirs'\n"), "deep/a.py": text()},
        },
        [("change", {"a.py": text(l5="line_5 = 'ours'\n")})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 0, done.out + done.err
    (patch,) = (tmp_path / "new").glob("*.patch")
    (file,) = parse_patch(patch.name, patch.read_bytes()).files
    assert (file.old_path, file.new_path) == ("src/widget/a.py", "src/widget/a.py")


def test_a_patched_file_that_moved_is_followed(tmp_path: Path) -> None:
    """The same, where the file has gone: that is a move."""
    small = make_small(
        tmp_path,
        {"1.0": {"a.py": text()}, "1.1": {"deep/a.py": text()}},
        [("change", {"a.py": text(l5="line_5 = 'ours'\n")})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert done.code == 0, done.out + done.err
    (patch,) = (tmp_path / "new").glob("*.patch")
    (file,) = parse_patch(patch.name, patch.read_bytes()).files
    assert file.new_path == "src/widget/deep/a.py"


@pytest.mark.parametrize("theirs", ["theirs\0\x01", None])
def test_a_binary_file_has_no_markers(theirs: str | None, tmp_path: Path) -> None:
    """A person gets upstream's file, or none where upstream removed it."""
    there = {"d.bin": theirs} if theirs is not None else {}
    small = make_small(
        tmp_path,
        {"1.0": {"d.bin": "base\0\x01"}, "1.1": {"a.py": "", **there}},
        [("change", {"d.bin": "ours\0\x01"})],
    )
    path = conflict(small, tmp_path / "new", "d.bin")
    if theirs is None:
        assert not path.exists()
    else:
        assert path.read_bytes() == theirs.encode()
