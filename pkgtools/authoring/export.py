"""Writing a series for others: as one diff, or as the mails that `git format-patch` writes."""

import re
from typing import Final

from pkgtools.authoring.applied import applied_on, refusal
from pkgtools.authoring.gitdiff import FileChange, diff_text, text_around, with_headers
from pkgtools.authoring.message import FROM_LINE, NOBODY, file_name, full_message, mail_head
from pkgtools.catalog import Series
from pkgtools.catalog.series import LISTING
from pkgtools.errors import DoesNotApplyError
from pkgtools.patch import Patch, header_length
from pkgtools.plan import plan_series
from pkgtools.source import Source

_AUTHOR: Final = re.compile(rb"^From:", re.MULTILINE | re.IGNORECASE)
_NAMED: Final = re.compile(r"^\d+-|\.(?:patch|diff)$")


def export_diff(series: Series, source: Source) -> bytes:
    """Return what a series does to a source, as one diff."""
    plan = plan_series(series.patches, source.read)
    if not plan.ok:
        raise DoesNotApplyError(
            f"{series.name} does not apply to {source.label}",
            remedy="port it with `pkgtools port`, or give the source that it is for",
            refusal=refusal(source, plan),
        )
    changes = [FileChange(c.path, c.path, c.before, c.after) for c in plan.changes]
    return diff_text(changes)


def export_mails(series: Series, source: Source) -> dict[str, bytes]:
    """Return a folder of mails that `git am` takes, with a ``series`` file.

    Shared patches and added files are in it: the folder needs no other. The diffs are those of
    `source`, with full blob ids.
    """
    mails = {}
    for number, applied in enumerate(applied_on(series.patches, source), 1):
        subject = applied.patch.subject
        if subject == applied.patch.name:  # it has none, and may have a number and a suffix already
            subject = _NAMED.sub("", subject)
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
