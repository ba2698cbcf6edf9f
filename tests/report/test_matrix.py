"""What becomes of each patch on each revision."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from project import PREFIX, build_wheel, substitute
from silent import Silent

from pkgtools.authoring.lock import write_locks
from pkgtools.catalog import load_catalog, load_series
from pkgtools.catalog.lock import read_lock
from pkgtools.report.matrix import CellState, Matrix, build_matrix
from pkgtools.source.at_hand import AtHand
from pkgtools.source.git import Repository

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Edit, Project

    from pkgtools.catalog import Catalog
    from pkgtools.report.matrix import Cell

_CORE: Final = f"{PREFIX}widget/core.py"


def _cells(matrix: Matrix, column: str) -> dict[str, Cell | None]:
    (place,) = (i for i, each in enumerate(matrix.columns) if each.name == column)
    none: dict[str, Cell | None] = {row.name: None for row in matrix.rows}
    # Patches of one name that change different lines have a row each.
    return none | {row.name: row.cells[place] for row in matrix.rows if row.cells[place]}


def _states(matrix: Matrix, column: str) -> dict[str, str | None]:
    cells = _cells(matrix, column)
    return {name: str(cell.state) if cell else None for name, cell in cells.items()}


def test_every_target_and_alias(project: Project) -> None:
    catalog = project.catalog()
    wheels = [project.wheel("1.0"), project.wheel("1.1")]
    matrix = build_matrix(catalog, AtHand(Silent(), wheels, [Repository(project.repository)]))
    assert [column.name for column in matrix.columns] == [
        *("w-1.0", "w-1.1", "w-dev", "w-dev-base", "w-dev-short")
    ]
    assert matrix.problems == ()
    full = {"answer-the-right-one": "applies", "extra-a-new-part": "applies"}
    assert _states(matrix, "w-1.0") == {**full, "legacy-retire-it": "applies"}
    assert _states(matrix, "w-dev") == {**full, "legacy-retire-it": None}
    assert set(_states(matrix, "w-dev-short").values()) == {"unverified", None}
    assert matrix.columns[0].source == "widget_kit-1.0-py3-none-any.whl"
    assert all("/" not in column.source for column in matrix.columns)


def test_a_hunk_that_moved_says_where(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    patch = next((targets.parent / "patches/widget/v1.0").glob("0001-*"))
    text = patch.read_text()
    found = re.search(r"^@@ -([2-9]\d*),", text, re.MULTILINE)  # one at line 1 is anchored there
    assert found is not None
    line = int(found[1])
    patch.write_text(text.replace(found[0], f"@@ -{line + 2},"))
    at_hand = AtHand(Silent(), [project.wheel("1.0")])
    write_locks([load_catalog(targets).target("w-1.0")], at_hand)
    cell = _cells(build_matrix(load_catalog(targets), at_hand), "w-1.0")["answer-the-right-one"]
    assert cell is not None
    assert cell.state is CellState.MOVED
    notes = [hunk.where for file in cell.files for hunk in file.hunks]
    assert f"at line {line}, moved by -2" in notes


def test_without_a_source_nothing_is_said(project: Project) -> None:
    matrix = build_matrix(project.catalog(), AtHand(Silent()))
    states = {cell.state for row in matrix.rows for cell in row.cells if cell}
    assert states == {CellState.UNVERIFIED}
    assert {column.source for column in matrix.columns} == {""}


def _other_release(project: Project, folder: Path, *edits: Edit) -> Matrix:
    """Hold everything against a release 1.0 that is not the one that the lock knows."""
    files = dict(project.releases["1.0"])
    for edit in edits:
        edit(files)
    wheel = build_wheel(folder, files, "1.0")
    return build_matrix(project.catalog(), AtHand(Silent(), [wheel]))


def test_a_conflict_is_told_hunk_by_hunk(project: Project, tmp_path: Path) -> None:
    matrix = _other_release(project, tmp_path, substitute(_CORE, b"total = 0\n", b"total = 7\n"))
    cells = _cells(matrix, "w-1.0")
    cell = cells["answer-the-right-one"]
    assert cell is not None
    assert cell.state is CellState.CONFLICT
    assert "is not a revision that the catalog knows" in cell.message
    (notes,) = ([h.where for h in f.hunks] for f in cell.files if f.path == _CORE)
    assert any("matches nowhere" in note for note in notes)
    assert _states(matrix, "w-1.0")["extra-a-new-part"] == "applies"  # its own part fits


def test_a_patch_that_is_there_already(project: Project, tmp_path: Path) -> None:
    matrix = _other_release(
        project,
        tmp_path,
        substitute(f"{PREFIX}widget/answer.py", b"ANSWER = 41", b"ANSWER = 42"),
        substitute(_CORE, b"    total = 0\n", b"    total = 0.0\n"),
        substitute(_CORE, b"spread {spread(values)}", b"{spread(values)} apart"),
        substitute(_CORE, b"def clip", b"# ours\ndef clip"),
    )
    cell = _cells(matrix, "w-1.0")["answer-the-right-one"]
    assert cell is not None
    assert cell.state is CellState.ABSORBED
    notes = [hunk.where for file in cell.files for hunk in file.hunks]
    assert any("already there at line 26" in note for note in notes), notes


def test_a_broken_target_is_a_problem(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    (targets.parent / "patches/widget/v1.1/lock.toml").unlink()
    matrix = build_matrix(load_catalog(targets), AtHand(Silent()))
    (problem,) = matrix.problems
    assert problem.startswith("w-1.1: lock.toml is missing")
    assert str(tmp_path) not in problem
    assert "w-1.1" not in [column.name for column in matrix.columns]


def test_what_a_release_absorbed(sglang: Catalog, release: Callable[[str], Path]) -> None:
    matrix = build_matrix(sglang, AtHand(Silent(), [release("0.5.23")]))
    cell = _cells(matrix, "v0.5.23")["attn-residual-64-bit-token-offsets"]
    assert cell is not None
    assert cell.state is CellState.ABSORBED
    assert "python/sglang/srt/layers/attn_residual.py:133" in cell.message
    assert cell.files[0].hunks[0].lines


def test_what_a_release_absorbed_later_ones_have(project: Project, tmp_path: Path) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    shelf, name = targets.parent / "patches/widget", "0001-answer-the-right-one.patch"
    held = 'name = "w-1.0"\nabsorbed = ["answer.patch"]\n'
    targets.write_text(targets.read_text().replace('name = "w-1.0"\n', held))
    for folder in (shelf / "v1.0", shelf / "v1.1"):
        (folder / name).rename(shelf / "answer.patch")
        series = folder / "series"
        series.write_text(series.read_text().replace(f"{name}\n", ""))
        lock = folder / "lock.toml"
        digest = load_series(folder).digest
        lock.write_text(lock.read_text().replace(read_lock(lock).series, digest))
    matrix = build_matrix(load_catalog(targets), AtHand(Silent()))
    assert _states(matrix, "w-1.0")["answer"] == "absorbed"
    later = _cells(matrix, "w-1.1")["answer"]
    assert later is not None
    assert (later.state, later.message) == (CellState.ABSORBED, "upstream holds it since 1.0")


def test_a_cell_has_the_headers_of_its_patch(project: Project) -> None:
    wheels = [project.wheel("1.0")]
    matrix = build_matrix(project.catalog(), AtHand(Silent(), wheels))
    cells = [cell for row in matrix.rows for cell in row.cells if cell is not None]
    assert {cell.headers for cell in cells} == {(("Upstream-Status", "Pending"),)}
