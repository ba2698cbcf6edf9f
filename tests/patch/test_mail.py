"""Mails around patches: what `git mailinfo` makes of them, pkgtools makes of them too."""

from __future__ import annotations

import base64
import quopri
import subprocess
from email.message import EmailMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import TYPE_CHECKING

import pytest

from pkgtools.errors import MalformedError
from pkgtools.patch import parse_patch, split_mails

if TYPE_CHECKING:
    from pathlib import Path

DIFF = """\
diff --git a/f b/f
index 7898192..6178079 100644
--- a/f
+++ b/f
@@ -1,3 +1,4 @@
 first
-caf\xe9
+a=b \u20ac?
+From here on, =3D and == stay
 a line that is long enough to be folded by any mailer that folds what it sends, as they all do
-- \n2.39.5
"""
HEAD = (
    b"From 1111111111111111111111111111111111111111 Mon Sep 17 00:00:00 2001\n"
    b"From: A U Thor <author@example.com>\n"
    b"Date: Tue, 14 Nov 2023 22:13:20 +0000\n"
    b"Subject: [PATCH] one thing\n"
)


def mailinfo(folder: Path, mail: bytes, *options: str) -> bytes:
    """Return the patch that git finds in a mail."""
    message, patch = folder / "message", folder / "patch"
    command = ["git", "mailinfo", *options, str(message), str(patch)]
    subprocess.run(command, input=mail, capture_output=True, check=True)
    return patch.read_bytes()


def encoded(encoding: str, charset: str) -> bytes:
    body = b"Why.\n\n---\n" + DIFF.replace("\u20ac", "\xa4").encode(charset)
    text = {
        "quoted-printable": lambda: quopri.encodestring(body),
        "base64": lambda: base64.encodebytes(body),
    }.get(encoding, lambda: body)()
    mime = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: {encoding}\n"
    return HEAD + b"MIME-Version: 1.0\n" + mime.encode() + b"\n" + text


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "cp1252"])
@pytest.mark.parametrize("encoding", ["7bit", "8bit", "binary", "quoted-printable", "base64"])
def test_encoded_mail_is_read_as_git_reads_it(tmp_path: Path, encoding: str, charset: str) -> None:
    data = encoded(encoding, charset)
    patch = parse_patch("x.patch", data)
    theirs = parse_patch("theirs", mailinfo(tmp_path, data))
    assert [h.lines for h in patch.files[0].hunks] == [h.lines for h in theirs.files[0].hunks]
    assert patch.files[0].hunks[0].new.splitlines()[1] == "a=b \xa4?".encode(charset)
    assert patch.subject == "one thing"
    assert patch.data == data


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64"])
def test_line_ends_of_the_transport_are_no_content(encoding: str) -> None:
    data = encoded(encoding, "utf-8")
    received = parse_patch("x.patch", data.replace(b"\n", b"\r\n"))
    assert received.files[0].hunks[0].lines == parse_patch("x", data).files[0].hunks[0].lines


def test_encoded_carriage_return_is_content(tmp_path: Path) -> None:
    data = encoded("quoted-printable", "utf-8").replace(b"?\n", b"?=0D\n")
    patch = parse_patch("x.patch", data)
    assert b"?\r\n" in patch.files[0].hunks[0].new
    assert b"?\r\n" in mailinfo(tmp_path, data, "--quoted-cr=nowarn")


@pytest.mark.parametrize(
    ("encoding", "damage", "said"),
    [
        ("quoted-printable", (b"=3D", b"=ZZ"), "quoted-printable text is damaged"),
        ("base64", (b"ZGlm", b"ZG!m"), "base64 text is damaged"),
        ("base64", (b"base64", b"x-uuencode"), "encoding 'x-uuencode' is unknown"),
    ],
)
def test_damaged_encoding_is_refused(encoding: str, damage: tuple[bytes, bytes], said: str) -> None:
    data = encoded(encoding, "utf-8")
    if damage[0] == b"ZGlm":
        at = data.index(b"base64\n\n") + 12
        data = data[:at] + b"!" + data[at + 1 :]
    with pytest.raises(MalformedError, match=said) as caught:
        parse_patch("x.patch", data.replace(*damage))
    assert caught.value.remedy is not None


def multipart(*parts: MIMEText, kind: str = "mixed") -> bytes:
    mail = MIMEMultipart(kind, _subparts=list(parts))
    mail["From"], mail["Subject"] = "A <a@example.com>", "[PATCH] one thing"
    return mail.as_bytes()


def part(text: str, kind: str = "plain", name: str | None = None) -> MIMEText:
    made = MIMEText(text, kind, "utf-8")  # base64
    if name is not None:
        made.add_header("Content-Disposition", "attachment", filename=name)
    return made


@pytest.mark.parametrize(
    "parts",
    [
        (part("Why.\n"), part(DIFF, name="0001-x.patch")),
        (part("Why.\n"), part(DIFF, "x-patch")),
        (part("Why.\n---\n" + DIFF), part("a list's footer\n")),
    ],
)
def test_attached_patch_is_read_as_git_reads_it(tmp_path: Path, parts: tuple[MIMEText]) -> None:
    data = multipart(*parts)
    patch = parse_patch("x.patch", data)
    theirs = parse_patch("theirs", mailinfo(tmp_path, data))
    assert [f.hunks[0].lines for f in patch.files] == [f.hunks[0].lines for f in theirs.files]
    assert patch.subject == "one thing"


def test_signature_of_a_mail_is_no_part_of_the_patch() -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "A <a@example.com>", "[PATCH] one thing"
    mail.set_content("Why.\n---\n" + DIFF, cte="quoted-printable")
    mail.add_attachment(b"-----BEGIN", "application", "pgp-signature", filename="signature.asc")
    patch = parse_patch("x.patch", mail.as_bytes())
    assert [file.new_path for file in patch.files] == ["f"]


def test_html_beside_the_plain_text_is_passed_over() -> None:
    data = multipart(part(DIFF), part("<pre>" + DIFF + "</pre>", "html"), kind="alternative")
    assert [file.new_path for file in parse_patch("x.patch", data).files] == ["f"]


@pytest.mark.parametrize("kind", ["text/html", "application/zip", "image/png"])
def test_attachment_that_is_no_text_is_refused(kind: str) -> None:
    mail = EmailMessage()
    mail.set_content(DIFF)
    mail["From"], mail["Subject"] = "A <a@example.com>", "[PATCH] one thing"
    mail.add_attachment(b"more", *kind.split("/"), filename="more")
    with pytest.raises(MalformedError, match="'more' is neither text nor a patch"):
        parse_patch("x.patch", mail.as_bytes())


@pytest.mark.parametrize("delsp", ["", "; delsp=yes"])
def test_flowed_text_is_joined_as_git_joins_it(tmp_path: Path, delsp: str) -> None:
    body = DIFF.replace(" long enough", "  long\n enough").replace("\n first", "\n  first")
    body = body.replace("  long\n", " long \n" if not delsp else " long  \n")
    kind = f"Content-Type: text/plain; charset=utf-8; format=flowed{delsp}\n"
    data = (
        HEAD + kind.encode() + b"\nWhy.\n---\n" + body.replace("\n a line", "\n  a line").encode()
    )
    patch = parse_patch("x.patch", data)
    theirs = parse_patch("theirs", mailinfo(tmp_path, data))
    assert patch.files[0].hunks[0].lines == theirs.files[0].hunks[0].lines
    assert b"that is long enough" in patch.files[0].hunks[0].new


ALTERNATIVE = (
    b'Content-Type: multipart/alternative; boundary="-2"\n\n---2\nContent-Type: text/plain\n\n'
    b"Why.\n---\n%b---2\nContent-Type: text/html\n\n<p>\n---2--\n" % DIFF.encode()
)
ATTACHED = (
    b'Content-Type: application/octet-stream\nContent-Disposition: attachment; filename="x.patch"\n'
    b"Content-Transfer-Encoding: base64\n\n%b" % base64.encodebytes(DIFF.encode())
)


def mixed(*parts: bytes) -> bytes:
    head = HEAD + b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="-1"\n\n'
    return head + b"".join(b"---1\n%b\n" % part for part in parts) + b"---1--\n"


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"\nHello,\n\n-- >8 --\nSubject: other\n\nWhy.\n---\n" + DIFF.encode(),
        HEAD + b"\nHello,\n- - - 8< - - -\nWhy.\n---\n" + DIFF.encode(),
        HEAD + b"\nFrom: B <b@example.com>\n\nWhy.\n---\n" + DIFF.encode(),
        HEAD + b"\nWhy.\n---\n" + DIFF.encode() + b"\n____\nlist mailing list\nlist@example.com\n",
        HEAD + b"\n> diff --git a/g b/g\n> old mode 100644\nNo:\n---\n" + DIFF.encode(),
        mixed(ALTERNATIVE, b"Content-Type: text/plain\n\na footer\n"),
        mixed(b"Content-Type: text/plain\n\nWhy.\n", ATTACHED),
    ],
    ids=["scissors", "cut", "in-body From", "footer", "quoted", "nested", "octet-stream"],
)
@pytest.mark.parametrize("option", ["--scissors", "--no-scissors"])
def test_mail_as_people_send_it_is_read_as_git_reads_it(
    tmp_path: Path, data: bytes, option: str
) -> None:
    (ours,) = parse_patch("x.patch", data).files
    (theirs,) = parse_patch("theirs", mailinfo(tmp_path, data, option)).files
    assert (ours.new_path, [h.lines for h in ours.hunks]) == ("f", [h.lines for h in theirs.hunks])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            HEAD
            + b"\n-----BEGIN PGP SIGNED MESSAGE-----\n\nWhy.\n- ---\n"
            + DIFF.encode().replace(b"\n-", b"\n- -"),
            "line of a diff is outside",
        ),
        (
            mixed(b"Content-Type: message/rfc822\n\n" + HEAD.partition(b"\n")[2]),
            "neither text nor a patch",
        ),
        (
            mixed(ATTACHED, ATTACHED.replace(b"x.patch", b"y.patch")),
            "a second patch can start here",
        ),
    ],
    ids=["dashes escaped (RFC 9580, 7.2)", "forwarded", "two attachments"],
)
def test_mail_that_git_reads_otherwise_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(MalformedError, match=said):
        parse_patch("x.patch", data)


def test_subject_in_the_body_stands_for_the_mails_own() -> None:
    data = (
        HEAD + b"\nFrom: B <b@example.com>\nSubject: [PATCH] another\n\nWhy.\n---\n" + DIFF.encode()
    )
    assert parse_patch("x.patch", data).subject == "another"


def test_mailbox_is_split_where_git_mailsplit_splits_it(tmp_path: Path) -> None:
    quoted = b"\nFrom here to there\nFrom me Mon\n>From 1\n---\n"
    mail = HEAD + quoted + DIFF.encode() + b"\n"
    (tmp_path / "mbox").write_bytes(mail * 3)
    (tmp_path / "out").mkdir()
    command = ["git", "mailsplit", f"-o{tmp_path / 'out'}", str(tmp_path / "mbox")]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"3\n"
    assert split_mails(mail * 3) == [
        file.read_bytes() for file in sorted((tmp_path / "out").iterdir())
    ]


@pytest.mark.parametrize("before", ["\n\n", "Description: fix\nOrigin: upstream\n\nMore.\n\n"])
def test_what_stands_before_the_first_mail_belongs_to_it(before: str) -> None:
    mail = HEAD + b"\nWhy.\n---\n" + DIFF.encode() + b"\n"
    assert split_mails(before.encode() + mail) == [before.encode() + mail]
    assert split_mails(before.encode() + mail * 2) == [before.encode() + mail, mail]
    assert len(parse_patch("x.patch", before.encode() + mail).files) == 1
    encoded_mail = before.encode() + encoded("base64", "utf-8")
    with pytest.raises(MalformedError, match=r"there is no diff|starts in the middle"):
        parse_patch("x.patch", b"x" + encoded_mail)


def test_diff_before_the_first_mail_is_a_patch_of_its_own() -> None:
    mail = HEAD + b"\nWhy.\n---\n" + DIFF.encode()
    assert split_mails(DIFF.encode() + mail) == [DIFF.encode(), mail]


def test_mercurials_exports_are_split() -> None:
    one = b"# HG changeset patch\n# User A\nWhy.\n\n" + DIFF.encode()
    assert split_mails(one + one) == [one, one]
