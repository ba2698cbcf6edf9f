"""Writing a series for others: a diff, the mails of `git format-patch`, or a reviewer's page."""

import re
from collections.abc import Iterator
from typing import Final

from pkgtools.authoring.applied import applied_on, refuse_misfit
from pkgtools.authoring.gitdiff import FileChange, diff_text, text_around, with_headers
from pkgtools.authoring.message import FROM_LINE, NOBODY, file_name, full_message, mail_head
from pkgtools.catalog import Series
from pkgtools.catalog.series import LISTING
from pkgtools.patch import Patch, bare_name, header_length
from pkgtools.patch.headers import headers_of, message_of
from pkgtools.source import Source

_AUTHOR: Final = re.compile(rb"^From:", re.MULTILINE | re.IGNORECASE)


def export_diff(series: Series, source: Source) -> bytes:
    """Return what a series does to a source, as one diff."""
    plan = refuse_misfit(series.patches, source)
    return diff_text(FileChange(c.path, c.path, c.before, c.after) for c in plan.changes)


def export_mails(series: Series, source: Source) -> dict[str, bytes]:
    """Return a folder of mails that `git am` takes, with a ``series`` file.

    Shared patches and added files are in it: the folder needs no other. The diffs are those of
    `source`, with full blob ids.
    """
    mails = {}
    for number, applied in enumerate(applied_on(series.patches, source), 1):
        subject = applied.patch.subject
        if subject == applied.patch.name:  # it has none, and may have a number and a suffix already
            subject = bare_name(subject)
        name = file_name(subject)
        mails[f"{number:04}-{name}"] = _mail(applied.patch, diff_text(applied.changes))
    return {LISTING: "".join(f"{name}\n" for name in mails).encode(), **mails}


def _mail(patch: Patch, diff: bytes) -> bytes:
    header = patch.text[: header_length(patch.text)]
    if not _AUTHOR.search(header):
        head, tail = text_around(patch)
        message = full_message(patch, head.decode(errors="replace").strip())
        return mail_head(NOBODY, message) + diff + tail
    mail = with_headers(patch, diff)
    return mail if mail.startswith(b"From ") else FROM_LINE + mail


def waiver_page(series: Series, source: str) -> str:
    """Return a Markdown page of the patches of a series on a source."""
    parts = [
        f"# Patches of {series.name} on {source}",
        f"Series `{series.digest}`, {len(series.patches)} patches.",
    ]
    parts += [text for patch in series.patches for text in _waiver(patch)]
    return "\n\n".join(parts) + "\n"


def _waiver(patch: Patch) -> Iterator[str]:
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
