"""Binary patches: whole or as a delta, and everything that is wrong with broken ones."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkgtools.errors import MalformedError
from pkgtools.patch import BinaryChange, parse_patch
from pkgtools.patch.binary import apply_delta

examples = settings(deadline=None, derandomize=True, database=None)

OLD, NEW = "1" * 40, "2" * 40
HEAD = f"diff --git a/f b/f\nindex {OLD}..{NEW} 100644\nGIT binary patch\n".encode()


def encode(data: bytes) -> bytes:
    """Write lines of up to 52 bytes: a letter for the length, then base85 of whole words."""
    lines = []
    for at in range(0, len(data), 52):
        part = data[at : at + 52]
        letter = chr(len(part) + (64 if len(part) <= 26 else 70)).encode()
        lines.append(letter + base64.b85encode(part + b"\0" * (-len(part) % 4)) + b"\n")
    return b"".join(lines)


def block(kind: str, data: bytes, *, size: int | None = None) -> bytes:
    claimed = len(data) if size is None else size
    return f"{kind} {claimed}\n".encode() + encode(zlib.compress(data)) + b"\n"


def change(body: bytes, head: bytes = HEAD) -> BinaryChange:
    (file,) = parse_patch("x.patch", head + body).files
    assert file.binary is not None
    return file.binary


def refusal(body: bytes, head: bytes = HEAD) -> str:
    with pytest.raises(MalformedError) as caught:
        parse_patch("x.patch", head + body)
    return str(caught.value)


# What git 2.39 itself wrote for the bytes 0 to 9 with an X in the place of the 4.
GIT_LITERAL = b"literal 10\nRcmZQzWMYnBWn<^y1ONi30D=Gj\n\n"


def test_literal_is_the_new_content() -> None:
    assert change(GIT_LITERAL).apply(b"anything") == b"\0\1\2\3X\5\6\7\x08\t"


@examples
@given(data=st.binary(max_size=300), reverse=st.booleans())
def test_literal_comes_back_with_and_without_its_reverse(data: bytes, *, reverse: bool) -> None:
    body = block("literal", data) + (block("literal", b"old") if reverse else b"")
    assert change(body) == BinaryChange(is_delta=False, data=data)


@examples
@given(st.binary(max_size=300))
def test_line_of_each_length_is_decoded(data: bytes) -> None:
    stored = zlib.compress(data, 0)
    body = b"literal %d\n" % len(data) + encode(stored) + b"\n"
    assert change(body).data == data


def test_what_stands_behind_a_binary_change_is_read() -> None:
    behind = b"diff --git a/g b/g\nold mode 100644\nnew mode 100755\n-- \n2.39.5\n"
    patch = parse_patch("x.patch", HEAD + GIT_LITERAL + behind)
    assert [file.new_path for file in patch.files] == ["f", "g"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "a binary patch has no literal or delta block"),
        (b"junk 3\n\n", "a binary patch has no literal or delta block"),
        (b"literal x\n\n", "the head of a binary block is malformed"),
        (b"literal 3 \n\n", "the head of a binary block is malformed"),
        (b"literal -3\n\n", "the head of a binary block is malformed"),
        (b"delta 12345678901\n\n", "the head of a binary block is malformed"),
        (b"literal 999999999\n\n", "a binary block claims 999999999 bytes, the limit is 268435456"),
        (b"literal 0\n\n", "a binary block inflates to another size than 0 bytes"),
        (GIT_LITERAL[:-1], "a binary block is cut short"),
        (GIT_LITERAL[:-2], "a binary block is cut short"),
        (GIT_LITERAL[:-3], "a binary line is corrupt"),
        (GIT_LITERAL[:11] + b"\n", "a binary block inflates to another size than 10 bytes"),
        (GIT_LITERAL.replace(b"RcmZ", b"QcmZ"), "inflates to another size than 10 bytes"),
        (GIT_LITERAL.replace(b"RcmZ", b"AcmZ"), "its length is not what its first letter says"),
        (GIT_LITERAL.replace(b"RcmZ", b"zcmZ"), "its length is not what its first letter says"),
        (GIT_LITERAL.replace(b"RcmZ", b"0cmZ"), "it does not start with its length"),
        (GIT_LITERAL.replace(b"Gj\n", b"G\n"), "its length is not what its first letter says"),
        (GIT_LITERAL.replace(b"Gj\n", b"Gj\r\n"), "a binary line is corrupt"),
        (GIT_LITERAL.replace(b"cm", b'c"'), "a binary line is corrupt"),
        (GIT_LITERAL.replace(b"cmZQz", b"~~~~~"), "a binary line is corrupt"),
        (GIT_LITERAL.replace(b"cmZQz", b"00000"), "does not inflate"),
        (GIT_LITERAL.replace(b"10\n", b"9\n"), "inflates to another size than 9 bytes"),
        (GIT_LITERAL.replace(b"10\n", b"11\n"), "inflates to another size than 11 bytes"),
        (GIT_LITERAL + b"literal 3\n", "a binary block is cut short"),
        (GIT_LITERAL + b"literal 3\n\n", "inflates to another size than 3 bytes"),
        (GIT_LITERAL + b"@@ -1 +1 @@\n-a\n+b\n", "a hunk stands behind a binary change"),
    ],
)
def test_broken_block_is_refused(body: bytes, said: str) -> None:
    assert said in refusal(body)


def test_one_character_too_many_in_a_line_is_refused() -> None:
    # base64.b85decode pads an odd group and would decode these six characters to four bytes
    line = b"D" + base64.b85encode(b"abcd") + b"0\n"
    assert "its length is not what its first letter says" in refusal(b"literal 0\n" + line + b"\n")


def test_bomb_is_not_inflated_beyond_what_the_head_says() -> None:
    bomb = encode(zlib.compress(bytes(50_000_000), 9)) + b"\n"
    assert "inflates to another size than 10 bytes" in refusal(b"literal 10\n" + bomb)


def test_stream_that_ends_early_is_refused() -> None:
    packed = encode(zlib.compress(bytes(range(200)))[:-5]) + b"\n"
    assert "inflates to another size than 200 bytes" in refusal(b"literal 200\n" + packed)


@pytest.mark.parametrize(
    "index",
    [b"", b"index 1111111..2222222 100644\n", b"index %s..2222222 100644\n" % OLD.encode()],
)
def test_binary_change_needs_full_blob_ids(index: bytes) -> None:
    head = b"diff --git a/f b/f\n" + index + b"GIT binary patch\n"
    assert "a binary change needs an index line with full blob ids" in refusal(GIT_LITERAL, head)


@pytest.mark.parametrize(
    "names", [b"a/f and b/f", b"/dev/null and b/f", b"a/f and /dev/null", b"a/with space and b/f"]
)
def test_binary_file_without_its_data_is_refused(names: bytes) -> None:
    head = f"diff --git a/f b/f\nindex {OLD}..{NEW} 100644\n".encode()
    with pytest.raises(MalformedError, match="the patch does not hold its data") as caught:
        parse_patch("x.patch", head + b"Binary files " + names + b" differ\n")
    assert caught.value.remedy is not None
    assert "git diff --binary" in caught.value.remedy


# Deltas: two sizes, then copies and insertions.

TEN = b"0123456789"


@pytest.mark.parametrize(
    ("delta", "made"),
    [
        (b"\x0a\x03\x03abc", b"abc"),
        (b"\x0a\x04\x90\x04", b"0123"),
        (b"\x0a\x04\x91\x06\x04", b"6789"),
        (b"\x0a\x06\x90\x02\x02XY\x91\x08\x02", b"01XY89"),
        (b"\x0a\x0a\x90\x0a", TEN),
    ],
)
def test_delta_copies_and_inserts(delta: bytes, made: bytes) -> None:
    assert apply_delta(TEN, delta) == made
    assert BinaryChange(is_delta=True, data=delta).apply(TEN) == made


def test_delta_with_wide_offsets_and_sizes() -> None:
    old = bytes(range(256)) * 300  # 76,800 bytes
    sizes = b"\x80\xd8\x04"
    # offset 0x00010203 in three bytes, size 0x0102 in two
    delta = sizes + b"\x82\x02" + b"\xb7\x03\x02\x01\x02\x01"
    assert apply_delta(old, delta) == old[0x10203:][:0x102]
    # no size byte at all means 0x10000
    assert apply_delta(old, sizes + b"\x80\x80\x04" + b"\x80") == old[:0x10000]
    # a size of more than two bytes
    assert apply_delta(old, sizes + b"\x80\x80\x04" + b"\xc0\x01") == old[:0x10000]


@pytest.mark.parametrize(
    ("delta", "said"),
    [
        (b"", "cut short"),
        (b"\x0a", "cut short"),
        (b"\x0a\x00", "cut short"),
        (b"\x8a\x80\x80\x80", "cut short"),
        (b"\x0a\x04\x91\x06", "cut short"),
        (b"\x0a\x04\x04abc", "cut short"),
        (b"\x0a\x03\x04abc", "cut short"),
        (b"\x09\x03\x03abc", "the delta is for 9 bytes, the content has 10"),
        (b"\x0a\x04\x91\x07\x04", "copies from beyond the content"),
        (b"\x0a\x04\x91\x0b\x04", "copies from beyond the content"),
        (b"\x0a\x04\x00\x00", "a reserved opcode"),
        (b"\x0a\x02\x03abc", "makes 3 bytes, it promises 2"),
        (b"\x0a\x04\x03abc", "makes 3 bytes, it promises 4"),
        (b"\x0a\x81\x80\x80\x80\x01\x90\x0a", "promises 268435457 bytes, the limit is 268435456"),
    ],
)
def test_corrupt_delta_is_refused(delta: bytes, said: str) -> None:
    with pytest.raises(ValueError, match="the delta") as caught:
        apply_delta(TEN, delta)
    assert said in str(caught.value)


def test_delta_that_grows_without_end_is_stopped() -> None:
    old = bytes(0xFFFFFF)
    copy_all = b"\xf0\xff\xff\xff"
    promise = b"\xff\xff\xff\x07\x80\x80\x80\x08"  # 16 MiB - 1 in, 16 MiB out
    with pytest.raises(ValueError, match="it promises 16777216"):
        apply_delta(old, promise + copy_all * 5000)
