"""The page: whole in itself, escaped, and what a real browser makes of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final

import pytest
from commands import call
from project import git
from pypdf import PdfReader

from pkgtools.catalog import load_catalog
from pkgtools.cli.report import _title
from pkgtools.recipe.plan import RuleFinding, RuleOutcome
from pkgtools.report.images import ShownImage
from pkgtools.report.matrix import (
    Cell,
    CellState,
    Column,
    Matrix,
    PatchRow,
    ShownFile,
    ShownHunk,
)
from pkgtools.report.page import render_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from project import Project

_HOSTILE: Final = "</style></pre><script>document.title='taken'</script><img src=x onerror=1> \"'&<"
_BIDI: Final = "if admin\u202e \u2066// allowed\u2069 \x1b[2J\x00"


def _matrix(name: str = "plain") -> Matrix:
    hunk = ShownHunk("@@ -1,2 +1,2 @@", (f" {name}", f"-{_BIDI}", f"+{name}" + "x" * 300), name)
    columns = tuple(Column(f"v{number}.{name}", "t", f"0.{number}.0", name) for number in range(12))
    rows = [
        PatchRow(
            f"{name}-{state}",
            name,
            tuple(
                Cell(
                    state=state,
                    patch=name,
                    subject=name,
                    message=name,
                    files=(ShownFile(name, "modify", (hunk, hunk), name),),
                    headers=(("Upstream-Status", name),),
                )
                if number != 3
                else None
                for number in range(12)
            ),
        )
        for state in CellState
    ]
    return Matrix(columns, tuple(rows), (name,))


def _findings(name: str) -> dict[str, list[RuleFinding]]:
    return {name: [RuleFinding(name, outcome, *[name] * 5) for outcome in RuleOutcome]}


class _Elements(HTMLParser):
    """Collects what a page consists of."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("name", ["plain", _HOSTILE])
def test_the_page_needs_nothing_and_leads_nowhere(name: str) -> None:
    images = [ShownImage(name, name), ShownImage(name, name, name)]
    page = render_page("Patches of x", _matrix(name), _findings(name), images)
    found = _Elements(page)
    assert found.open == []
    assert {tag for tag, _ in found.tags} <= {
        *("html", "head", "meta", "title", "style", "body", "a", "h1", "h2", "ul", "li", "strong"),
        *("small", "p", "main", "div", "table", "caption", "thead", "tbody", "tr", "th", "td"),
        *("span", "section", "details", "summary", "code", "pre", "ins", "del", "footer"),
    }
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in found.tags:
        assert not {"src", "srcset", "style", "action", "http-equiv"} & set(attributes) or (
            tag == "meta"
        )
        assert not [key for key in attributes if key.startswith("on")]
        if "href" in attributes and "rel" not in attributes:
            assert str(attributes["href"]).removeprefix("#") in ids
    assert "url(" not in page
    assert "@import" not in page
    assert name in found.texts


def test_links_of_a_patch_can_be_followed() -> None:
    value = 'Backport [https://x.invalid/1?a=1&b="] CVE-2026-1234 javascript:alert(1) <b>'
    matrix = _matrix()
    (row, *others) = matrix.rows
    cells = [replace(c, headers=(("CVE", value),)) if c else None for c in row.cells]
    page = render_page("x", replace(matrix, rows=(replace(row, cells=tuple(cells)), *others)), {})
    found = _Elements(page)
    links = {a["href"] for tag, a in found.tags if tag == "a" and "rel" in a}
    assert links == {
        "https://x.invalid/1?a=1&b=",
        "https://nvd.nist.gov/vuln/detail/CVE-2026-1234",
    }
    assert "b" not in [tag for tag, _ in found.tags]


def test_nothing_is_invisible() -> None:
    page = render_page("Patches of x", _matrix(), {})
    assert r"-if admin\u202e \u2066// allowed\u2069 \u001b[2J\u0000" in page
    assert all(c.isprintable() or c in "\n\t" for c in page)


def test_the_same_bytes_each_time(project: Project, tmp_path: Path) -> None:
    arguments: list[str | Path] = [
        *("--catalog", project.targets, "--git", project.repository),
        *("--wheel", project.wheel("1.0"), "--wheel", project.wheel("1.1")),
    ]
    pages = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        done = call("report", "-o", folder, *arguments, "--json")
        assert done.code == 0, done
        assert done.facts["path"] == str(folder / "index.html")
        assert len(done.facts["matrix"]["rows"]) >= 3
        pages.append((folder / "index.html").read_bytes())
        assert [path.name for path in folder.iterdir()] == ["index.html"]
    assert pages[0] == pages[1]
    assert str(tmp_path).encode() not in pages[0]
    assert str(project.root).encode() not in pages[0]
    assert b"<title>Patches of widget-kit 1.1</title>" in pages[0]


def test_the_title_has_the_date_of_the_catalog(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = project.copy_catalog(tmp_path / "catalog")
    top = targets.parent
    git(top, "init", "--quiet")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message", "all")
    assert _title(load_catalog(targets)) == "Patches of widget-kit 1.1 on 2020-01-02"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert _title(load_catalog(targets)) == "Patches of widget-kit 1.1 on 1970-01-01"


# A page around the page, which may run a script, measures it in a frame of a given width.
_HARNESS: Final = """<!DOCTYPE html><meta charset="utf-8"><body>
<iframe id="f" src="index.html" style="width:@width@px;height:800px;border:0"></iframe>
<pre id="out">not measured</pre>
<script>
function luminance(color) {
  const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(one, two) {
  const [low, high] = [luminance(one), luminance(two)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
document.getElementById("f").onload = event => {
  const page = event.target.contentDocument, view = event.target.contentWindow;
  const style = node => view.getComputedStyle(node);
  const back = style(page.body).backgroundColor;
  const link = page.querySelector("td a"), panel = page.querySelector(link.getAttribute("href"));
  const before = style(panel).display;
  link.focus();
  const focused = page.activeElement === link;
  link.click();
  setTimeout(() => {
    panel.querySelectorAll("details").forEach(details => { details.open = true; });
    const contrasts = {};
    for (const selector of ["body", "td a", ".soft", "small", ".moved", ".absorbed", ".conflict",
                            ".unverified", ".ok", ".open", ".wrong"])
      contrasts[selector] = contrast(style(page.querySelector(selector)).color, back);
    for (const tag of ["ins", "del"]) {
      const node = panel.querySelector(tag);
      contrasts[tag] = contrast(style(node).color, style(node).backgroundColor);
    }
    document.getElementById("out").textContent = JSON.stringify({
      title: page.title, back, before, after: style(panel).display, focused, contrasts,
      overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
      scripts: page.querySelectorAll("script, img").length,
      head: style(page.querySelector(".matrix thead")).position,
      names: [...page.querySelectorAll("tbody th")].map(node => node.firstChild.textContent),
      tall: Math.min(...[...page.querySelectorAll("td a")].map(a => a.offsetHeight)),
      focusable: page.querySelectorAll("a[href], summary, [tabindex='0']").length,
    });
  }, 300);
};
</script>
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[str]:
    for name in ("chromium", "google-chrome"):
        if program := shutil.which(name):
            yield program
            return
    pytest.skip("neither chromium nor google-chrome is on PATH")


def _browse(browser: str, folder: Path, *arguments: str) -> str:
    return subprocess.run(
        [
            browser,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--allow-file-access-from-files", "--virtual-time-budget=5000"),
            f"--user-data-dir={folder / 'profile'}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout


def _measure(browser: str, folder: Path, width: int, *, dark: bool) -> Any:
    (folder / "harness.html").write_text(_HARNESS.replace("@width@", str(width)))
    color = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    page = (folder / "harness.html").as_uri()
    done = _browse(browser, folder, color, "--dump-dom", page)
    out = done.partition('<pre id="out">')[2].partition("</pre>")[0]
    text = _Elements(f"<pre>{out}</pre>").texts
    return json.loads("".join(text))


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1400, True)])
def test_in_a_browser(browser: str, tmp_path: Path, width: int, dark: bool) -> None:
    matrix = _matrix(_HOSTILE)
    matrix = replace(matrix, columns=tuple(replace(c, name=f"v{i}") for i, c in
                                           enumerate(matrix.columns)))  # fmt: skip
    (tmp_path / "index.html").write_text(render_page("Patches of x", matrix, _findings(_HOSTILE)))
    found = _measure(browser, tmp_path, width, dark=dark)
    assert found["title"] == "Patches of x"
    assert found["scripts"] == 0
    assert found["names"][: len(CellState)] == [f"{_HOSTILE}-{state}" for state in CellState]
    # Nothing to scroll sideways but the table and the code, each in its own box.
    assert found["overflow"] == 0
    assert found["head"] == ("absolute" if width < 720 else "static")
    assert (found["before"], found["after"]) == ("none", "block")
    assert found["focused"] is True
    assert found["focusable"] > len(CellState) * 11
    assert found["tall"] >= 24  # what a finger can meet
    assert found["back"] == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    assert {name: ratio for name, ratio in found["contrasts"].items() if ratio < 4.5} == {}


def test_on_paper(browser: str, tmp_path: Path) -> None:
    """The matrix with every revision, and the chosen cell with all of its hunks, whole lines."""
    matrix = _matrix("plain")
    row = matrix.rows[0]
    other = ShownHunk("@@ -7 +7 @@", ("+elsewhere",), "")
    cells = (row.cells[0], *(replace(c, files=(ShownFile("b", "modify", (other,), ""),)) if c
             else None for c in row.cells[1:]))  # fmt: skip
    page = tmp_path / "index.html"
    page.write_text(
        render_page("Patches of x", replace(matrix, rows=(replace(row, cells=cells),)), {})
    )
    paper = tmp_path / "page.pdf"
    _browse(browser, tmp_path, f"--print-to-pdf={paper}", f"{page.as_uri()}#cell-0-0")
    text = "".join("".join(p.extract_text() for p in PdfReader(paper).pages).split())
    assert [c.name for i, c in enumerate(matrix.columns) if (c.name in text) == (i == 3)] == []
    assert text.count("x" * 300) == 2
    assert "elsewhere" not in text
    assert "Backtothematrix" not in text
