"""Small trees in which patches go wrong: twins, odd names, links, no final newline."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from pkgtools.blob import EXECUTABLE, REGULAR, SYMLINK, Blob

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from git_oracle import Tree
    from hypothesis.strategies import DrawFn

NAMES = (
    "f",
    "g.py",
    "d",
    "d/f",
    "d/e/h",
    "link",
    "link/x",
    "with space",
    "x b/x",
    "tab\there",
    'quo"te',
    "back\\slash",
    "gr\u00fc\u00df",
    "-- a",
    "dev/null",
    "git~2",
    "d/.gitignore",
)
REFUSED = {
    "new\nline": (b'"new\\nline"',),
    "return\r": (b'"return\\r"',),
    b"\xff\xfe".decode("utf-8", "surrogateescape"): (b'"\\377\\376"', b"\xff\xfe"),
    "GIT~1/x": (b"GIT~1/x",),
}
"""Names that git takes and pkgtools does not, and how git writes them."""
LINES = (
    b"",
    b"",
    b"a",
    b"b",
    b"    a",
    b"}",
    b"a # comment",
    b"- ",
    b"-- ",
    b"-- a/f",
    b"++ b/f",
    b"@@ -1 +1 @@",
    b"\\ No newline at end of file",
    b"diff --git a/f b/f",
    b"trailing \t",
    b"gr\xc3\xbc\xc3\x9f",
    b"\xff",
    b"a\rb",
)
LINKS = (b"f", b"d/f", b"../d", b"nowhere", b"/etc/passwd", b"../../out", b"d", b".", b"d/../../x")

_some = st.integers(0, 3)
_name = st.integers(0, 120).map(
    lambda pick: list(REFUSED)[pick % 4] if pick > 116 else NAMES[pick % len(NAMES)]
)
_choice = st.integers(0, 1 << 16)


@st.composite
def lines(draw: DrawFn, most: int = 40) -> list[bytes]:
    """Lines, from all different to hardly any different."""
    size, variety = draw(st.integers(0, most)), draw(st.sampled_from((0, 30, 100, 200, 256)))
    picks = Random(draw(_choice)).randbytes(size)  # noqa: S311
    return [
        b"line %d, long enough for git" % (at * 1000 + pick)
        if pick < variety
        else LINES[pick % len(LINES)]
        for at, pick in enumerate(picks)
    ]


def joined(body: list[bytes], style: int) -> bytes:
    """Return a file's bytes; `style` picks its line ends and whether the last one is there."""
    ends = [b"\r\n" if style == 1 or (style == 2 and at % 2) else b"\n" for at in range(len(body))]
    data = b"".join(line + end for line, end in zip(body, ends, strict=True))
    return data.removesuffix(b"\n") if style in (2, 3) else data


@st.composite
def blobs(draw: DrawFn) -> Blob:
    """Text most of the time, sometimes binary, a link, executable."""
    what = draw(st.integers(0, 11))
    if what == 0:
        return Blob(draw(st.sampled_from(LINKS)), SYMLINK)
    if what == 1:
        return Blob(b"\0" + draw(st.binary(max_size=20)) * draw(st.integers(1, 8)))
    data = joined(draw(lines()), draw(st.integers(0, 7)))
    return Blob(data, EXECUTABLE if what == 2 else REGULAR)


def add(tree: Tree, path: str, blob: Blob) -> None:
    """Put a file into a tree, in the place of whatever is in its way."""
    for other in list(tree):
        if other.startswith(path + "/") or path.startswith(other + "/"):
            del tree[other]
    tree[path] = blob


@st.composite
def trees(draw: DrawFn) -> Tree:
    """One to five files."""
    tree: Tree = {}
    for path in draw(st.lists(_name, min_size=1, max_size=5, unique=True)):
        add(tree, path, draw(blobs()))
    return tree


@st.composite
def edited(draw: DrawFn, data: bytes, most: int = 3) -> bytes:
    """Content with lines inserted, removed, replaced or doubled, or with other line ends."""
    body = re.findall(rb"[^\n]*\n|[^\n]+", data)
    for _ in range(draw(st.integers(1, most))):
        what, at, more = draw(st.integers(0, 8)), draw(_choice), draw(_some)
        at %= len(body) + 1
        if what <= 2:
            body[at:at] = [line + b"\n" for line in draw(lines(3))]
        elif what <= 4:
            del body[at : at + 1 + more]
        elif what == 5:
            body[at : at + 1] = [line + b"\n" for line in draw(lines(2))]
        elif what == 6:
            body[at:at] = body[max(at - 2 - more, 0) : at]
        elif what == 7 and body:
            last = body[-1]
            body[-1] = last.removesuffix(b"\n") if last.endswith(b"\n") else last + b"\n"
        elif what == 8 and more == 0:
            crlf = b"\r\n" in data
            body = [x.replace(b"\r\n", b"\n") if crlf else x.replace(b"\n", b"\r\n") for x in body]
    return b"".join(body)


@st.composite
def changed(draw: DrawFn, tree: Tree, paths: tuple[str, ...] = (), most: int = 4) -> Tree:
    """Change a tree in up to `most` ways; the changes look at `paths` more than at others."""
    after = dict(tree)
    for _ in range(draw(st.integers(1, most))):
        known = sorted(after.keys() & set(paths)) or sorted(after)
        what, at = draw(st.integers(0, 11)), draw(_choice)
        if not known or what == 0:
            add(after, draw(_name), draw(blobs()))
            continue
        path = known[at % len(known)]
        blob = after[path]
        if what <= 5:
            if blob.mode == SYMLINK:
                after[path] = Blob(draw(st.sampled_from(LINKS)), SYMLINK)
            else:
                after[path] = Blob(draw(edited(blob.data)), blob.mode)
        elif what == 6:
            after[path] = Blob(blob.data, REGULAR if blob.mode == EXECUTABLE else EXECUTABLE)
        elif what == 7:
            del after[path]
        elif what == 8:
            after[path] = draw(blobs())
        elif what == 9:
            add(after, draw(_name), blob)
        elif what == 10:
            del after[path]
            add(after, draw(_name), blob)
        else:
            other = sorted(after)[draw(_choice) % len(after)]
            after[path], after[other] = after[other], blob
    return after


@st.composite
def disturbed(draw: DrawFn, tree: Tree, paths: Sequence[str]) -> Tree:
    """Change a tree so that hunks for `paths` stand elsewhere, or twice, or nowhere."""
    if not draw(_some):
        return draw(changed(tree, tuple(paths), 2))
    after = dict(tree)
    for path in sorted(tree.keys() & set(paths)):
        blob, what = after[path], draw(st.integers(0, 5))
        if blob.mode == SYMLINK or not what:
            continue
        moved = draw(edited(blob.data, 1)) if what < 4 else blob.data
        if what > 2:
            moved = b"".join(line + b"\n" for line in draw(lines(3))) + moved
        after[path] = Blob(moved, blob.mode)
    return after


BLOCKS = (
    ["def f():", "    a = 1", "    return a", ""],
    ["def g():", "    a = 1", "    b = 2", "    return a", ""],
    ["class C:", "    def f():", "        pass", "", ""],
    ["", "}", ""],
)


@st.composite
def modules(draw: DrawFn) -> list[list[str]]:
    """Blocks that are alike; some start with a line of their own."""
    picks = draw(st.lists(st.integers(0, 2 * len(BLOCKS)), min_size=1, max_size=9))
    return [
        [*([] if pick < len(BLOCKS) else [f"# part {at}"]), *BLOCKS[pick % len(BLOCKS)]]
        for at, pick in enumerate(picks)
    ]


@st.composite
def rearranged(draw: DrawFn, blocks: list[list[str]]) -> list[list[str]]:
    """Blocks taken out, doubled, moved, or with a line more or less."""
    blocks = [list(block) for block in blocks]
    for _ in range(draw(st.integers(1, 2))):
        what, at, to = draw(st.integers(0, 5)), draw(_choice), draw(_choice)
        at, to = at % (len(blocks) or 1), to % (len(blocks) + 1)
        if what == 0 or not blocks:
            blocks.insert(to, list(BLOCKS[at % len(BLOCKS)]))
        elif what == 1:
            del blocks[at]
        elif what == 2:
            blocks.insert(to, list(blocks[at]))
        elif what == 3:
            blocks.insert(to % len(blocks), blocks.pop(at))
        elif what == 4:
            blocks[at].insert(to % (len(blocks[at]) + 1), f"    new = {to}")
        else:
            blocks[at] = blocks[at][: to % 5] + blocks[at][to % 5 + 1 :]
    return blocks


OPTIONS = (
    ("--binary",),
    ("--full-index",),
    ("--no-renames",),
    ("-M",),
    ("-M20%",),
    ("-C",),
    ("-C", "-C"),
    ("-B",),
    ("-B", "-M"),
    ("-B1%/1%", "-M"),
    ("-W",),
    ("--inter-hunk-context=3",),
    ("--patience",),
    ("--text",),
    ("--irreversible-delete",),
    ("core.quotePath=false",),
)


@st.composite
def options(draw: DrawFn) -> tuple[str, ...]:
    """Options of ``git diff``; binary data most of the time."""
    context = draw(st.sampled_from((3, 3, 3, 1, 2, 4, 5, 0)))
    picked = draw(st.lists(st.sampled_from(OPTIONS), max_size=3, unique=True))
    binary = ("--binary",) if draw(_some) else ()
    return (f"-U{context}", *binary, *(x for group in picked for x in group))


@st.composite
def damaged(draw: DrawFn, patch: bytes) -> bytes:
    """Do to a patch what hands, mailers and broken downloads do."""
    body = patch.splitlines(keepends=True) if b"\r" not in patch else patch.split(b"\n")
    if b"\r" in patch:
        body = [line + b"\n" for line in body[:-1]] + ([body[-1]] if body[-1] else [])
    for _ in range(draw(st.sampled_from((1, 1, 1, 2)))):
        before = body
        for _ in range(4):  # most damages find nothing to do in most patches
            if body and body == before:
                damage = _DAMAGES[draw(st.integers(0, len(_DAMAGES) - 1))]
                body = damage(body, draw(_choice), draw(_choice))
    return b"".join(body)


@st.composite
def renumbered(draw: DrawFn, patch: bytes) -> bytes:
    """Move the start of one side of one hunk."""
    body = patch.splitlines(keepends=True)
    at = draw(st.sampled_from([at for at, line in enumerate(body) if line.startswith(b"@@ -")]))
    starts = list(re.finditer(rb"(?<=[-+])\d+", body[at].split(b" @@")[0]))
    start = starts[draw(st.integers(0, 1))]
    value = max(int(start[0]) + draw(st.sampled_from((-9, -6, -5, -4, -1, 1, 4, 5, 6, 9))), 1)
    body[at] = body[at][: start.start()] + b"%d" % value + body[at][start.end() :]
    return b"".join(body)


def _renumber(body: list[bytes], at: int, how: int) -> list[bytes]:
    headers = [number for number, line in enumerate(body) if line.startswith(b"@@ -")]
    if not headers:
        return body
    number = headers[at % len(headers)]
    figures = list(re.finditer(rb"\d+", body[number].split(b" @@")[0]))
    if not figures:
        return body
    figure = figures[how % len(figures)]
    value = max(int(figure[0]) + (how // 7) % 21 - 10, 0)
    line = body[number]
    new = line[: figure.start()] + b"%d" % value + line[figure.end() :]
    return [*body[:number], new, *body[number + 1 :]]


def _drop(body: list[bytes], at: int, how: int) -> list[bytes]:
    at %= len(body)
    return body[:at] + body[at + 1 + how % 2 :]


def _double(body: list[bytes], at: int, how: int) -> list[bytes]:
    at %= len(body)
    return body[:at] + body[at : at + 1 + how % 3] + body[at:]


def _retag(body: list[bytes], at: int, how: int) -> list[bytes]:
    at %= len(body)
    tag = (b" ", b"-", b"+", b"\\ ", b"", b"\n", b"\t")[how % 7]
    return [*body[:at], tag + body[at][1:], *body[at + 1 :]]


def _cut(body: list[bytes], at: int, how: int) -> list[bytes]:
    at %= len(body)
    return [*body[:at], body[at][: how % (len(body[at]) + 1)]]


def _no_newline(body: list[bytes], at: int, how: int) -> list[bytes]:
    marker = (b"\\ No newline at end of file\n", b"\\ No\n", b"\\\n")[how % 3]
    at %= len(body) + 1
    return [*body[:at], marker, *body[at:]]


def _without_markers(body: list[bytes], _at: int, _how: int) -> list[bytes]:
    return [line for line in body if not line.startswith(b"\\ ")]


def _insert(body: list[bytes], at: int, how: int) -> list[bytes]:
    junk = (
        b"\n",
        b" \n",
        b"junk\n",
        b"-- \n",
        b"--\n2.39.5\n",
        b"\r\n",
        b"--- a/f\n",
        b"+++ b/f\n",
    )
    at %= len(body) + 1
    return [*body[:at], junk[how % len(junk)], *body[at:]]


def _flip(body: list[bytes], at: int, how: int) -> list[bytes]:
    """Change one byte of a line; of a header line twice as often."""
    headers = [number for number, line in enumerate(body) if line[:1] not in (b" ", b"-", b"+")]
    number = headers[at % len(headers)] if headers and how % 3 else at % len(body)
    line = bytearray(body[number])
    if line:
        line[how % len(line)] = b'0123456789abfxyzAZ /-+.\t"\\\n'[at // 7 % 27]
    return [*body[:number], bytes(line), *body[number + 1 :]]


def _sections(body: list[bytes]) -> list[list[bytes]]:
    parts: list[list[bytes]] = [[]]
    for line in body:
        if line.startswith(b"diff --git "):
            parts.append([])
        parts[-1].append(line)
    return parts


def _swap(body: list[bytes], at: int, how: int) -> list[bytes]:
    head, *rest = _sections(body)
    if len(rest) > 1:
        rest.insert(how % len(rest), rest.pop(at % len(rest)))
    return [line for part in (head, *rest) for line in part]


def _repeat(body: list[bytes], at: int, how: int) -> list[bytes]:
    head, *rest = _sections(body)
    if rest:
        rest.insert(how % (len(rest) + 1), rest[at % len(rest)])
    return [line for part in (head, *rest) for line in part]


def _rename(body: list[bytes], at: int, how: int) -> list[bytes]:
    """Let a header line speak of another file, or of another mode."""
    words = {
        b"a/f": b"a/g.py",
        b"b/f": b"b/d",
        b"100644": (b"100755", b"120000", b"160000", b"644", b"100664")[how % 5],
        b"120000": b"100644",
        b"new file mode": b"new mode",
        b"deleted file mode": b"old mode",
        b"/dev/null": b"a/f",
        b"rename": b"copy",
        b"copy": b"rename",
    }
    places = [
        (number, word)
        for number, line in enumerate(body)
        for word in sorted(words)
        if word in line and line[:1] not in (b" ", b"\\")
    ]
    if not places:
        return body
    number, wanted = places[at % len(places)]
    return [*body[:number], body[number].replace(wanted, words[wanted]), *body[number + 1 :]]


def _plain(body: list[bytes], _at: int, _how: int) -> list[bytes]:
    """Leave what diff(1) would write: no line of git's own."""
    keep = (b" ", b"-", b"+", b"@", b"\\")
    return [line for line in body if line[:1] in keep or line == b"\n"]


def _crlf(body: list[bytes], _at: int, _how: int) -> list[bytes]:
    return [line.removesuffix(b"\n") + b"\r\n" for line in body]


_DAMAGES: tuple[Callable[[list[bytes], int, int], list[bytes]], ...] = (
    _renumber,
    _renumber,
    _drop,
    _double,
    _retag,
    _cut,
    _no_newline,
    _without_markers,
    _insert,
    _flip,
    _flip,
    _swap,
    _repeat,
    _rename,
    _rename,
    _plain,
    _crlf,
)
