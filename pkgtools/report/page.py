"""The overview as one HTML page without scripts or external files; all text is escaped."""

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pkgtools import __version__
from pkgtools.recipe.plan import RuleFinding
from pkgtools.report.images import ShownImage
from pkgtools.report.matrix import Cell, CellState, Column, Matrix, ShownFile

_CSS: Final = Path(__file__).with_name("page.css")
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_LINK: Final = re.compile(r"(https?://[^\s<>\"'\]]+|CVE-\d{4}-\d{4,19})")
_SIGNS: Final = {
    CellState.APPLIES: "✓",
    CellState.MOVED: "↕",
    CellState.ABSORBED: "●",
    CellState.CONFLICT: "✗",
    CellState.UNVERIFIED: "?",
}
_MEANING: Final = {
    CellState.APPLIES: "every hunk applies at its line",
    CellState.MOVED: "it applies, with a hunk at another line",
    CellState.ABSORBED: "the revision has it already",
    CellState.CONFLICT: "it does not apply",
    CellState.UNVERIFIED: "the source was not available",
}


def render_page(
    title: str,
    matrix: Matrix,
    recipes: Mapping[str, Sequence[RuleFinding]],
    images: Sequence[ShownImage] = (),
) -> str:
    """Return the page; the same facts give the same bytes."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{text(title)}</title>",
            f"<style>\n{_CSS.read_text(encoding='utf-8')}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#matrix">Skip to the matrix</a>',
            f"<h1>{text(title)}</h1>",
            *_summary(matrix),
            "<main>",
            *_matrix(matrix),
            *_panels(matrix),
            *_images(images),
            *_recipes(recipes),
            "</main>",
            f"<footer><small>pkgtools {__version__}</small></footer>",
            "</body>",
            "</html>",
            "",
        ]
    )


def text(value: str) -> str:
    """Escape a text for HTML and show its invisible characters.

    Control characters and those that turn the direction of a line would make a patch
    look like another one.
    """
    shown = "".join(c if c.isprintable() or c == "\t" else f"\\u{ord(c):04x}" for c in value)
    return html.escape(shown, quote=True)


def _linked(value: str) -> str:
    """Return a header's value with links: to its URLs, and to the entries of CVEs."""
    parts = _LINK.split(value)  # every second part is a link
    return "".join(_link(part) if number % 2 else text(part) for number, part in enumerate(parts))


def _link(word: str) -> str:
    url = word if word.startswith("http") else f"https://nvd.nist.gov/vuln/detail/{word}"
    return f'<a href="{text(url)}" rel="noreferrer">{text(word)}</a>'


def _summary(matrix: Matrix) -> Iterator[str]:
    counts = Counter(cell.state for row in matrix.rows for cell in row.cells if cell)
    yield "<ul>"
    for state, meaning in _MEANING.items():
        mark = f'<strong class="{state}">{_SIGNS[state]} {state}</strong>'
        yield f"<li>{mark}: {counts[state]} <small>({meaning})</small></li>"
    yield "</ul>"
    for problem in matrix.problems:
        yield f'<p class="conflict">{text(problem)}</p>'


def _matrix(matrix: Matrix) -> Iterator[str]:
    yield '<div class="scroll" role="region" aria-label="Matrix" tabindex="0">'
    yield '<table class="matrix" id="matrix">'
    yield "<caption>Each cell leads to its hunks, below the table.</caption>"
    yield '<thead><tr><th scope="col">Patch</th>'
    for column in matrix.columns:
        revision = column.revision if " " in column.revision else column.revision[:12]
        yield f'<th scope="col">{text(column.name)}<small>{text(revision)}</small></th>'
    yield "</tr></thead><tbody>"
    for y, row in enumerate(matrix.rows):
        subject = f"<small>{text(row.subject)}</small>"
        yield f'<tr><th scope="row">{text(row.name)}{subject}</th>'
        for x, (column, cell) in enumerate(zip(matrix.columns, row.cells, strict=True)):
            where = f'data-revision="{text(column.name)}"'
            if cell is None:
                nothing = '<span class="soft" role="img" aria-label="not in its series">-</span>'
                yield f'<td class="none" {where}>{nothing}</td>'
                continue
            link = f'<a href="#cell-{y}-{x}">{_SIGNS[cell.state]} {cell.state}</a>'
            yield f'<td class="{cell.state}" {where}>{link}</td>'
        yield "</tr>"
    yield "</tbody></table></div>"


def _panels(matrix: Matrix) -> Iterator[str]:
    for y, row in enumerate(matrix.rows):
        for x, (column, cell) in enumerate(zip(matrix.columns, row.cells, strict=True)):
            if cell is not None:
                yield from _panel(f"cell-{y}-{x}", column, cell)


def _panel(name: str, column: Column, cell: Cell) -> Iterator[str]:
    yield f'<section class="cell" id="{name}" tabindex="-1" aria-labelledby="{name}-title">'
    yield f'<h2 id="{name}-title">{text(cell.subject)}</h2>'
    state = f'<strong class="{cell.state}">{_SIGNS[cell.state]} {cell.state}</strong>'
    yield f"<p>{state} on {text(column.name)} ({text(column.revision)})</p>"
    source = f", against {text(column.source)}" if column.source else ""
    yield f"<p><small>{text(cell.patch)}{source}</small></p>"
    if cell.message:
        yield f"<p>{text(cell.message)}</p>"
    if cell.headers:
        lines = [f"<li>{text(name)}: {_linked(value)}</li>" for name, value in cell.headers]
        yield f"<ul>{''.join(lines)}</ul>"
    for file in cell.files:
        yield from _file(file)
    yield '<p><a href="#matrix">Back to the matrix</a></p>'
    yield "</section>"


def _file(file: ShownFile) -> Iterator[str]:
    hunks = "1 hunk" if len(file.hunks) == 1 else f"{len(file.hunks)} hunks"
    kind = f"<small>{text(file.kind)}, {hunks}</small>"
    yield f"<details><summary>{text(file.path)} {kind}</summary>"
    if file.message:
        yield f"<p>{text(file.message)}</p>"
    for hunk in file.hunks:
        note = f" {text(hunk.where)}" if hunk.where else ""
        yield f"<p><code>{text(hunk.header)}</code>{note}</p>"
        lines = "\n".join(map(_line, hunk.lines))
        yield f'<pre tabindex="0">{lines}</pre>'
    yield "</details>"


def _line(line: str) -> str:
    tag = {"+": "ins", "-": "del"}.get(line[:1])
    return f"<{tag}>{text(line)}</{tag}>" if tag else text(line)


def _images(images: Sequence[ShownImage]) -> Iterator[str]:
    if not images:
        return
    yield "<h2>Images</h2>"
    yield '<div class="scroll" role="region" aria-label="Images" tabindex="0">'
    yield '<table><thead><tr><th scope="col">Image</th><th scope="col">Its files are</th>'
    yield '<th scope="col">What it says</th></tr></thead><tbody>'
    for image in images:
        yield f'<tr><th scope="row">{text(image.reference)}</th><td>{text(image.state)}</td>'
        state, told = ("wrong", image.problem) if image.problem else ("ok", "is true")
        yield f'<td class="{state}">{text(told)}</td></tr>'
    yield "</tbody></table></div>"


def _recipes(recipes: Mapping[str, Sequence[RuleFinding]]) -> Iterator[str]:
    if not recipes:
        return
    yield "<h2>Recipes</h2>"
    for name, findings in recipes.items():
        counts = Counter(finding.outcome for finding in findings)
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        yield f"<details><summary>{text(name)} <small>{told}</small></summary>"
        yield f'<div class="scroll" role="region" aria-label="{text(name)}" tabindex="0">'
        yield '<table><thead><tr><th scope="col">Rule</th>'
        yield '<th scope="col">Outcome</th><th scope="col">Found</th>'
        yield '<th scope="col">Worked out</th><th scope="col">Why</th></tr></thead><tbody>'
        for finding in findings:
            yield f'<tr><th scope="row">{text(finding.rule)}</th>'
            yield f'<td class="{finding.outcome}">{finding.outcome}</td>'
            for value in (finding.found, finding.computed, finding.why):
                yield f"<td>{text(value)}</td>"
            yield "</tr>"
        yield "</tbody></table></div></details>"
