"""Mails around patches: told apart, decoded and unfolded as ``git am`` does.

A mail that is not encoded is its own text, byte by byte. An encoded one is decoded to the
mail that its sender wrote, with ``8bit`` in its header. Git's rules are in ``mailinfo.c``: https://git-scm.com/docs/git-mailinfo
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pkgtools.patch.lines import Lines
from pkgtools.util.lines import split

if TYPE_CHECKING:
    from email.message import Message

# What `git log` and `git show`, and `hg export`, write above a message.
_EXPORTED: Final = re.compile(
    rb"(?:commit [0-9a-f]{40,64}[^\n]*\n(?:[A-Za-z]+:? [^\n]*\n)+\n {4}"
    rb"|# HG [^\n]*\n(?:# [^\n]*\n)*)(\S[^\n]*)\n"
)
_FROM_LINE: Final = re.compile(rb"From [^\n]*\n")
_HEADER: Final = re.compile(rb"[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*")
_MIME: Final = re.compile(
    rb"^(?:MIME-Version|Content-[!-9;-~]+):[^\n]*\n(?:[ \t][^\n]*\n)*", re.MULTILINE | re.IGNORECASE
)
_KNOWN: Final = re.compile(rb"^(?:From|Subject|Date|Content-Type):", re.MULTILINE | re.IGNORECASE)
# A mailbox's separator: mailsplit.c `is_from_line`. Mercurial's `hg export` has its own.
_MAILBOX: Final = re.compile(
    rb"^(?:From [^\n]+\d.\d\d:\d\d *(?:9[1-9]|[1-9]\d\d+)[^:\n]*|# HG changeset patch)\r?\n",
    re.MULTILINE,
)
_COMMIT: Final = re.compile(
    rb"^(?:commit [0-9a-f]{40,64}(?: \([^\n]*\))?\r?\n"
    rb"(?=(?:Merge|Author|AuthorDate|Reflog): |tree )"
    rb"|[0-9a-f]{7,64} [^\n]+\n(?=diff --git )"
    rb"|[0-9a-f]{40,64}\n\n?(?=diff --git ))",
    re.MULTILINE,
)
"""A commit in any format of ``git log``."""
_SECTION: Final = re.compile(rb"^(?:diff --git |--- [^\n]+\n\+\+\+ )", re.MULTILINE)
_BAD_QP: Final = re.compile(r"=(?![0-9A-Fa-f]{2}|[ \t]*\n)")
_TAG: Final = re.compile(r"^\s*(\[[^]]*\]\s*)+")
_IDENTITY: Final = ("", "7bit", "8bit", "binary")
_SIGNATURES: Final = {
    "application/pgp-signature",
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
}
_PATCHES: Final = {"application/x-patch", "application/x-diff"}


def split_mails(data: bytes) -> list[bytes]:
    """Return the patches of a file in its order; a file of one patch whole."""
    mails = [match.start() for match in _MAILBOX.finditer(data)]
    # A mail's message may quote a log.
    starts = mails or [match.start() for match in _COMMIT.finditer(data)]
    if not starts:
        return [data]
    # Debian's headers (DEP-3) and remarks belong to the first patch, a diff of its own does not.
    if holds_diff(data[: starts[0]]):
        starts.insert(0, 0)
    else:
        starts[0] = 0
    parts = [data[at:end] for at, end in pairwise([*starts, len(data)])]
    return parts if mails else _with_diffs(parts)


def is_mail(data: bytes) -> bool:
    """Whether a part of a file is a mail, or an export of Mercurial."""
    return _MAILBOX.search(data) is not None


def holds_diff(data: bytes) -> bool:
    """Whether a part of a file has a section."""
    return _SECTION.search(data) is not None


def _with_diffs(parts: Sequence[bytes]) -> list[bytes]:
    """Put commits without a diff, such as merges, behind the diff before or after them."""
    joined = [parts[0]]
    for part in parts[1:]:
        if not holds_diff(joined[-1]):
            joined[-1] = part + joined[-1]
        elif holds_diff(part):
            joined.append(part)
        else:
            joined[-1] += part
    return joined


def header_length(data: bytes) -> int:
    """Return the length of a mail's header with its ``From `` line, or 0 if this is not a mail."""
    first = _FROM_LINE.match(data)
    at = first.end() if first else 0
    while match := _HEADER.match(data, at):
        at = match.end()
    head = data[:at]
    ended = data[at : at + 1] in (b"\n", b"") or data[at : at + 2] == b"\r\n"
    return at if ended and _KNOWN.search(head) else 0


def decoded(name: str, data: bytes) -> bytes:
    """Return a mail with its body decoded; parts without an encoding keep their bytes."""
    length = header_length(data)
    if not length or not _MIME.search(data[:length]):
        return data
    from email.parser import BytesParser  # noqa: PLC0415 - slow to import, and few patches need it

    mail = BytesParser().parsebytes(data)
    parts = list(_text_parts(name, mail))
    if not mail.is_multipart() and _encoding(mail) in _IDENTITY and not _is_flowed(mail):
        return data
    if data[:length].count(b"\r\n") == data[:length].count(b"\n") and all(
        _encoding(part) not in _IDENTITY for part in parts
    ):
        # The line ends are the mail server's (RFC 5322): an encoded CR would be "=0D".
        return decoded(name, data.replace(b"\r\n", b"\n"))
    body = b"".join(_body(name, part) for part in parts)
    charset = next((c for c in (part.get_content_charset() for part in parts) if c), None)
    mime = b"MIME-Version: 1.0\nContent-Type: text/plain; charset=%s\n" % (
        charset or "utf-8"
    ).encode("ascii", "replace")
    head = _MIME.sub(b"", data[:length])
    return head + mime + b"Content-Transfer-Encoding: 8bit\n\n" + body


def subject_of(text: bytes) -> str | None:
    """Return a mail's or a commit's subject in one line without its ``[PATCH]``, or None.

    A ``Subject:`` at the start of the body replaces the mail's own, as in ``git am``.
    """
    length = header_length(text)
    if not length:
        exported = _EXPORTED.match(text)
        return " ".join(exported[1].decode(errors="replace").split()) if exported else None
    import email.parser  # noqa: PLC0415 - slow to import, and only people ask
    import email.policy  # noqa: PLC0415

    parser = email.parser.BytesHeaderParser(policy=email.policy.default)
    head = text[:length].removeprefix(b"".join(_FROM_LINE.findall(text[:length])[:1]))
    subject = parser.parsebytes(head)["Subject"]
    body = text[length:].lstrip(b"\r\n")
    if re.match(rb"(?:From|Subject|Date): ", body):
        subject = parser.parsebytes(body.partition(b"\n\n")[0])["Subject"] or subject
    if subject is None:
        return None
    return _TAG.sub("", " ".join(str(subject).split()))


def _encoding(part: Message) -> str:
    return str(part.get("Content-Transfer-Encoding", "")).strip().lower()


def _is_flowed(part: Message) -> bool:
    return str(part.get_param("format", "")).lower() == "flowed"


def _text_parts(name: str, mail: Message) -> Iterator[Message]:
    """Yield the parts that hold text; a signature is passed over, as people's mailers do."""
    if mail.get_content_type() == "multipart/alternative":
        parts = [part for part in mail.walk() if part.get_content_type() == "text/plain"]
        if not parts:
            _fail(name, "the mail has no plain text")
        yield from parts
    elif mail.is_multipart() and mail.get_content_maintype() == "multipart":
        for part in mail.get_payload():
            if not isinstance(part, str):
                yield from _text_parts(name, part)
    elif mail.get_content_type() in _SIGNATURES:
        return
    elif _holds_text(mail):
        yield mail
    else:
        shown = mail.get_filename() or mail.get_content_type()
        _fail(name, f"the mail's attachment {shown!r} is neither text nor a patch")


def _holds_text(part: Message) -> bool:
    kind = part.get_content_type()
    named = str(part.get_filename() or "").endswith((".patch", ".diff", ".txt"))
    return named or kind in _PATCHES or (kind.startswith("text/") and kind != "text/html")


def _body(name: str, part: Message) -> bytes:
    encoding = _encoding(part)
    if encoding not in (*_IDENTITY, "quoted-printable", "base64"):
        _fail(name, f"the mail's encoding {encoding!r} is unknown")
    raw = part.get_payload(decode=True)
    body = raw if isinstance(raw, bytes) else b""
    if encoding == "quoted-printable" and _BAD_QP.search(str(part.get_payload())):
        _fail(name, "the mail's quoted-printable text is damaged")
    if encoding == "base64" and part.defects:
        _fail(name, "the mail's base64 text is damaged")
    if body and not body.endswith(b"\n"):
        body += b"\n"
    return _unflowed(part, body) if _is_flowed(part) else body


def _unflowed(part: Message, body: bytes) -> bytes:
    """Join lines that a mailer broke behind a space (RFC 3676), and unstuff them."""
    joint = b"" if str(part.get_param("delsp", "")).lower() == "yes" else b" "
    out: list[bytes] = []
    held = b""
    for line in split(body):
        plain = line.rstrip(b"\r\n")
        if plain == b"-- ":  # a signature's line is not a soft break (RFC 3676, 4.3)
            out += [held, line]
            held = b""
        elif plain.endswith(b" "):
            held += plain.removeprefix(b" ")[:-1] + joint
        else:
            out.append(held + line.removeprefix(b" "))
            held = b""
    return b"".join([*out, held])


def _fail(name: str, message: str) -> None:
    remedy = "save the patch as plain text: `git format-patch`, or the mailer's source view"
    Lines(name, b"").fail(message, remedy=remedy)
