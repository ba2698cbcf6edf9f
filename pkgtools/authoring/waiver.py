"""The page that a reviewer asks for: what each patch does, why, and when it goes."""

from collections.abc import Iterator

from pkgtools.catalog import Series
from pkgtools.patch import Patch
from pkgtools.patch.headers import headers_of, message_of


def waiver_page(series: Series, source: str) -> str:
    """Return a Markdown page of the patches of a series on a source."""
    parts = [
        f"# Patches of {series.name} on {source}",
        f"Series `{series.digest}`, {len(series.patches)} patches.",
    ]
    parts += [text for patch in series.patches for text in _patch(patch)]
    return "\n\n".join(parts) + "\n"


def _patch(patch: Patch) -> Iterator[str]:
    headers = headers_of(patch)
    reason = f" ({headers.status_reason})" if headers.status_reason else ""
    rows = {
        "Upstream status": f"{headers.upstream_status}{reason}" if headers.upstream_status else "",
        "Origin": headers.origin,
        "Bug": ", ".join(headers.bugs),
        "Forwarded": headers.forwarded,
        "CVE": ", ".join(headers.cves),
        "Removal plan": headers.removal_plan,
        "SHA-256": f"`{patch.digest}`",
    }
    yield f"## {cell(patch.subject)}"
    lines = [f"| {name} | {cell(value or 'not said')} |" for name, value in rows.items()]
    yield "\n".join(["| | |", "|---|---|", *lines])
    # Indented text is code: nothing of a message becomes a heading or a link of the page.
    if message := message_of(patch):
        yield "\n".join(f"    {line}".rstrip() for line in message.splitlines())
    yield "Files: " + ", ".join(f"`{path}`" for path in sorted(patch.paths))


def cell(text: str) -> str:
    """Escape what would end a cell, start HTML, or break the line."""
    for character in "\\|<":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
