"""What a patch says about itself, in the words of DEP-3 and Yocto."""

from __future__ import annotations

import pytest

from pkgtools.patch import parse_patch
from pkgtools.patch.headers import NAMES, PatchHeaders, headers_of

_DIFF = """\
diff --git a/f b/f
--- a/f
+++ b/f
@@ -1 +1,2 @@
 a
+CVE: CVE-2000-0001
"""


def said(message: str, end: str = "---\n") -> PatchHeaders:
    mail = f"From: A <a@example.invalid>\nSubject: [PATCH] f\n\n{message}\n{end}"
    return headers_of(parse_patch("x.patch", f"{mail}\n{_DIFF}".encode()))


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [
        ("Upstream-Status: Pending", "Pending", None),
        (
            "Upstream-Status: Backport [https://example.invalid/1]",
            "Backport",
            "https://example.invalid/1",
        ),
        (
            "upstream-status: inactive-upstream [gone\n  since 2020]",
            "Inactive-Upstream",
            "gone since 2020",
        ),
        ("Upstream-Status: Whatever [x]", "Whatever", "x"),
        ("Upstream-Status: two words", "two words", None),
        ("Upstream-Status:", None, None),
        ("See Upstream-Status: Pending", None, None),
    ],
)
def test_upstream_status(line: str, status: str | None, reason: str | None) -> None:
    headers = said(line)
    assert (headers.upstream_status, headers.status_reason) == (status, reason)


def test_every_header() -> None:
    headers = said(
        "Why.\n\nOrigin: upstream, commit:0123456\nBug: https://a.invalid/1\n"
        "Bug-Debian: https://b.invalid/2\nForwarded: not-needed\n"
        "CVE: CVE-2026-1234 cve-2026-5678, CVE-2026-1234, CVE-26-1\nRemoval-Plan: with 2.0\n"
    )
    assert headers == PatchHeaders(
        upstream_status=None,
        status_reason=None,
        origin="upstream, commit:0123456",
        bugs=("https://a.invalid/1", "https://b.invalid/2"),
        forwarded="not-needed",
        cves=("CVE-2026-1234", "CVE-2026-5678"),
        removal_plan="with 2.0",
    )
    assert {name for name in NAMES if headers.get(name)} == set(NAMES) - {"Upstream-Status"}


@pytest.mark.parametrize("end", ["---\n", "---\n f | 1 +\n 1 file changed\n\n", ""])
def test_only_the_message_is_read(end: str) -> None:
    assert said("Forwarded: no", end).cves == ()
    assert said("Forwarded: no", end).forwarded == "no"


def test_a_bare_diff_says_nothing() -> None:
    headers = headers_of(parse_patch("x.patch", _DIFF.encode()))
    assert [name for name in NAMES if headers.get(name)] == []


def test_headers_in_a_mails_head_count() -> None:
    text = f"Origin: vendor\nSubject: f\nFrom: A <a@b.invalid>\n\nText.\n---\n{_DIFF}"
    assert headers_of(parse_patch("x.patch", text.encode())).origin == "vendor"
