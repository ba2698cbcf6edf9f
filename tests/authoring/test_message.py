"""The author of a patch is the one that git am records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from project import git

from pkgtools.authoring.message import NOBODY, author_of, mail_date
from pkgtools.patch import parse_patch

if TYPE_CHECKING:
    from pathlib import Path

_DATE = "Date: Thu, 2 Jan 2020 03:04:05 -0730\n"
_DIFF = (
    "---\n\ndiff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+b\n"
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "--quiet")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "base")
    git(root, "tag", "base")
    return root


@pytest.mark.parametrize(
    "head",
    [
        "From: A B <a@b.invalid>\n",
        "From: =?utf-8?q?J=C3=B6rg_=C3=84?= <j@b.invalid>\n",
        "From: =?iso-8859-1?q?J=F6rg?= <j@b.invalid>\n",
        "From: a@b.invalid (A B)\n",
        'From: "B, A" <a@b.invalid>\n',
        "From: A B <a@b.invalid>\nSubject: x\n\nFrom: In Body <in@b.invalid>\n",
    ],
)
def test_the_author_is_the_one_of_git_am(repository: Path, tmp_path: Path, head: str) -> None:
    subject = "" if "Subject" in head else "Subject: x\n"
    mail = f"From 0 Mon Sep 17 00:00:00 2001\n{_DATE}{head}{subject}\nText.\n{_DIFF}".encode()
    (tmp_path / "mail").write_bytes(mail)
    git(repository, "reset", "--quiet", "--hard", "base")
    git(repository, "am", "--quiet", tmp_path / "mail")
    author = author_of(parse_patch("x.patch", mail))
    recorded = git(repository, "log", "-1", "--date=raw", "--format=%an <%ae> %ad").strip()
    assert f"{author.mailbox} {author.date}" == recorded


@pytest.mark.parametrize(
    ("head", "date"),
    [
        ("From: <\n", "0 +0000"),
        ("From: ;=?utf-8?q?:?=.\n", "0 +0000"),
        ("From: \nDate: Thu, 99 Jan 99999 99:99:99 +9999\n", "0 +0000"),
        ("Date: Thu, 2 Jan 2020 03:04:05 -99999999999\n", "0 +0000"),
        ("Date: Thu, 2 Jan 1960 03:04:05 +0100\n", "0 +0000"),
        (f"{_DATE}Content-Type: text/plain; charset=unheard-of\n", "1577961245 -0730"),
    ],
)
def test_headers_that_say_nothing_are_nobodys(head: str, date: str) -> None:
    author = author_of(parse_patch("x.patch", f"Subject: x\n{head}\nText.\n{_DIFF}".encode()))
    assert (author.mailbox, author.date) == (NOBODY, date)
    assert mail_date(author.date).endswith(date.split()[1])
