"""The headers of a patch: where it comes from, what it fixes, and when it goes.

They are lines ``Name: value`` of the mail's header or message, in the words of two conventions:
DEP-3 (https://dep-team.pages.debian.net/deps/dep3/) for ``Origin``, ``Bug``, ``Forwarded``, and
Yocto (https://docs.yoctoproject.org/contributor-guide/recipe-style-guide.html#patch-upstream-status)
for ``Upstream-Status`` and ``CVE``. ``Removal-Plan`` is this project's own.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pkgtools.patch.mail import header_length
from pkgtools.patch.model import Patch

UPSTREAM_STATUS: Final = (
    "Pending",
    "Submitted",
    "Backport",
    "Denied",
    "Inactive-Upstream",
    "Inappropriate",
)
"""Yocto's words; each can be followed by a reason or a link in brackets."""
_END: Final = re.compile(rb"^(?:---[ \t]*|diff --git .*|--- .*|Index: .*)$", re.MULTILINE)
_FIELD: Final = re.compile(
    r"^(Upstream-Status|Origin|Bug(?:-[A-Za-z]+)?|Forwarded|CVE|Removal-Plan):[ \t]*"
    r"(.*(?:\n[ \t]+\S.*)*)",
    re.MULTILINE | re.IGNORECASE,
)
_STATUS: Final = re.compile(r"([A-Za-z-]+)[ \t]*(?:\[(.*)\])?\s*", re.DOTALL)
_CVE: Final = re.compile(r"CVE-\d{4}-\d{4,19}")


@dataclass(frozen=True)
class PatchHeaders:
    """The headers of a patch."""

    upstream_status: str | None
    """One of `UPSTREAM_STATUS`; any other text as it is."""
    status_reason: str | None
    """The text in brackets."""
    origin: str | None
    bugs: tuple[str, ...]
    forwarded: str | None
    cves: tuple[str, ...]
    removal_plan: str | None

    def get(self, name: str) -> str | None:
        """Return a header by its name, as a catalog's policy demands it; None without a value."""
        values: Mapping[str, str | None] = {
            "Upstream-Status": self.upstream_status,
            "Origin": self.origin,
            "Bug": " ".join(self.bugs),
            "Forwarded": self.forwarded,
            "CVE": " ".join(self.cves),
            "Removal-Plan": self.removal_plan,
        }
        return values[name] or None

    def shown(self) -> Iterator[tuple[str, str]]:
        """Yield each header that has a value, as a person reads it."""
        for name in NAMES:
            if value := self.get(name):
                reason = self.status_reason if name == "Upstream-Status" else None
                yield name, f"{value} [{reason}]" if reason else value


NAMES: Final = ("Upstream-Status", "Origin", "Bug", "Forwarded", "CVE", "Removal-Plan")
"""The headers that a policy can demand."""


def message_of(patch: Patch) -> str:
    """Return the message of a patch, without the mail's header and the changes."""
    return _text(patch, header_length(patch.text)).strip()


def headers_of(patch: Patch) -> PatchHeaders:
    """Return the headers of a patch; only its mail header and message are read."""
    message = _text(patch, 0)
    fields: defaultdict[str, list[str]] = defaultdict(list)
    for match in _FIELD.finditer(message):
        name = match[1].lower()
        value = " ".join(match[2].split())
        if value:
            fields["bug" if name.startswith("bug") else name].append(value)
    status = fields["upstream-status"][0] if fields["upstream-status"] else ""
    parts = _STATUS.fullmatch(status)
    word = parts[1] if parts else status
    known = {name.lower(): name for name in UPSTREAM_STATUS}
    return PatchHeaders(
        upstream_status=known.get(word.lower(), word) or None,
        status_reason=(parts[2] if parts else None) or None,
        origin=next(iter(fields["origin"]), None),
        bugs=tuple(fields["bug"]),
        forwarded=next(iter(fields["forwarded"]), None),
        cves=tuple(dict.fromkeys(_CVE.findall(" ".join(fields["cve"]).upper()))),
        removal_plan=next(iter(fields["removal-plan"]), None),
    )


def _text(patch: Patch, start: int) -> str:
    end = _END.search(patch.text)
    text = patch.text[start : end.start() if end else len(patch.text)]
    return text.decode(errors="replace").replace("\r\n", "\n")
