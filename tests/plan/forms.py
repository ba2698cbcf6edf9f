"""The forms in which people have patches: written by git and diff(1), and sent by mailers."""

from __future__ import annotations

import base64
import itertools
import os
import quopri
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from pkgtools.blob import REGULAR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from git_oracle import Git, Tree
    from hypothesis.strategies import DrawFn

PREFIXES = (
    ("a/", "b/"),
    ("a/", "b/"),
    ("", ""),
    ("i/", "w/"),
    ("c/", "i/"),
    ("old-1.0/", "new-1.0/"),
    ("x/old/", "x/new/"),
)
"""What stands before the names on both sides."""


@dataclass(frozen=True)
class Form:
    """A patch file, and how git and patch(1) are told to read it."""

    name: str
    data: bytes
    level: int
    """What to give to ``-p``."""
    is_mail: bool


# Git.


@st.composite
def from_git(draw: DrawFn, git: Git, steps: Sequence[Tree], how: Sequence[str]) -> Form:
    """One diff, or a mail for each step, as git writes them."""
    old, new = draw(st.sampled_from(PREFIXES))
    options = [*how, f"--src-prefix={old}", f"--dst-prefix={new}"]
    if len(steps) == 2 and draw(st.booleans()):
        data = git.diff(steps[0], steps[1], options)
        kind = draw(st.sampled_from(("diff", "diff with a mark", "diff in a text", "diff in CRLF")))
        if kind == "diff with a mark":
            data = b"\xef\xbb\xbf" + data
        elif kind == "diff in a text":
            data = b"Description: fix it\n Really.\nForwarded: no\n\n" + data
        elif kind == "diff in CRLF":  # as unix2dos and shells of Windows leave it
            data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        return Form(kind, data, old.count("/"), is_mail=False)
    mails = []
    for number, (before, after) in enumerate(itertools.pairwise(steps), 1):
        rest = draw(
            st.sampled_from(((), (), (), ("--attach",), ("--inline",), ("--no-signature",)))
        )
        message = f"step {number}: gr\u00fc\u00dfe\n\nWhy.\n--- a list\n+1\n"
        mails.append(git.diff(before, after, [*options, *rest], message))
    mails = [mail for mail in mails if mail]
    name, send = draw(st.sampled_from(MAILERS))
    if len(mails) > 1 or not all(map(_is_plain, mails)):
        name, send = "mailbox", _as_it_is
    return Form(name, b"".join(map(send, mails)), old.count("/"), is_mail=True)


# Mailers.


def _parts(mail: bytes) -> tuple[bytes, bytes]:
    """Return a mail's header without what says how its body is encoded, and the body."""
    head, _, body = mail.partition(b"\n\n")
    kept = re.sub(rb"(?m)^(?:MIME|Content)-[^\n]*\n(?:[ \t][^\n]*\n)*", b"", head + b"\n")
    return kept + b"MIME-Version: 1.0\n", body


def _is_plain(mail: bytes) -> bool:
    return b"\nContent-Type: multipart/" not in mail.partition(b"\n\n")[0]


def _as_it_is(mail: bytes) -> bytes:
    return mail


def _encoded(encoding: str, encode: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def send(mail: bytes) -> bytes:
        head, body = _parts(mail)
        kind = b"Content-Type: text/plain; charset=utf-8\n"
        how = f"Content-Transfer-Encoding: {encoding}\n\n".encode()
        return head + kind + how + encode(body)

    return send


def _quoted(body: bytes) -> bytes:
    return quopri.encodestring(body, quotetabs=False)


def _flowed(mail: bytes) -> bytes:
    """Send as RFC 3676 asks: stuffed, and without spaces at the ends of lines."""
    head, body = _parts(mail)
    lines = []
    for line in body.split(b"\n"):
        plain = line if line == b"-- " else line.rstrip(b" ")
        lines.append(b" " + plain if plain.startswith((b" ", b">", b"From ")) else plain)
    kind = b"Content-Type: text/plain; charset=utf-8; format=flowed\n\n"
    return head + kind + b"\n".join(lines)


def _attached(mail: bytes) -> bytes:
    """Send the message as text, the diff as an attachment and a signature behind them."""
    head, body = _parts(mail)
    message, _, diff = body.partition(b"\n---\n")
    sections = (
        (b"text/plain; charset=utf-8", b"quoted-printable", _quoted(message + b"\n---\n")),
        (b'text/x-patch; name="1.patch"', b"base64", base64.encodebytes(diff)),
        (b"application/pgp-signature", b"7bit", b"-----BEGIN PGP SIGNATURE-----\n"),
    )
    kind = b'Content-Type: multipart/signed; boundary="=-1"\n\n'
    text = b"".join(
        b"--=-1\nContent-Type: %s\nContent-Transfer-Encoding: %s\n\n%s\n" % section
        for section in sections
    )
    return head + kind + text + b"--=-1--\n"


def _received(send: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Let the lines end as on their way (RFC 5322)."""
    return lambda mail: send(mail).replace(b"\n", b"\r\n")


_qp = _encoded("quoted-printable", _quoted)
_base64 = _encoded("base64", base64.encodebytes)
MAILERS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("mail", _as_it_is),
    ("8bit", _encoded("8bit", bytes)),
    ("quoted-printable", _qp),
    ("quoted-printable, CRLF", _received(_qp)),
    ("base64", _base64),
    ("base64, CRLF", _received(_base64)),
    ("flowed", _flowed),
    ("attached", _attached),
)


# diff(1).


@st.composite
def from_diff(draw: DrawFn, root: Path, old: Tree, new: Tree) -> Form:
    """Return what ``diff -ruN`` writes of the regular files of two trees."""
    names = draw(st.sampled_from((("a", "b"), ("pkg-1.0.orig", "pkg-1.0"), ("x/old", "x/new"))))
    for name, tree in zip(names, (old, new), strict=True):
        for path, blob in tree.items():
            where = root / name / path
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_bytes(blob.data)
        (root / name).mkdir(parents=True, exist_ok=True)
    zone = draw(st.sampled_from(("UTC", "Asia/Tokyo", "America/St_Johns")))
    context = draw(st.sampled_from((3, 3, 1, 5)))
    made = subprocess.run(
        ["diff", "-rNa", f"-U{context}", *names],
        cwd=root,
        env={"PATH": os.environ["PATH"], "TZ": zone, "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert made.returncode < 2, made.stderr
    data = made.stdout
    if draw(st.integers(0, 3)) == 0:  # an editor or a web page that has no tabs
        data = re.sub(rb"(?m)^((?:---|\+\+\+) [^\t\n]*)\t", rb"\1  ", data)
    return Form("diff(1)", data, names[0].count("/") + 1, is_mail=False)


def regular(tree: Tree) -> Tree:
    """Return the files that diff(1) can tell all about."""
    odd = set('"\\\n\r\t')
    return {
        path: blob
        for path, blob in tree.items()
        if blob.mode == REGULAR and path.isprintable() and not odd & set(path)
    }
