"""Git's binary patches: base85 lines around zlib data, whole or as a delta.

The format of a delta is in https://git-scm.com/docs/gitformat-pack#_deltified_representation;
the lines are written by ``emit_binary_diff_body`` in git's diff.c.
"""

import base64
import re
import string
import zlib
from dataclasses import dataclass
from typing import Final

from pkgtools.blob import LIMIT
from pkgtools.patch.lines import Lines

_HEADER: Final = re.compile(rb"(literal|delta) (\d{1,10})\n")
_LENGTHS: Final = string.ascii_letters.swapcase().encode()
"""The letters for the lengths of a line: A-Z are 1 to 26, a-z are 27 to 52."""


@dataclass(frozen=True)
class BinaryChange:
    """The forward half of a binary patch."""

    is_delta: bool
    data: bytes
    """The new content, or a delta against the old one."""

    def apply(self, old: bytes) -> bytes:
        """Return the new content; raise a `ValueError` if the delta is not for `old`."""
        return apply_delta(old, self.data) if self.is_delta else self.data


def read_binary(lines: Lines) -> BinaryChange:
    """Read what follows ``GIT binary patch``: the forward change, then the reverse one if any."""
    forward = _read_block(lines)
    if forward is None:
        lines.fail("a binary patch has no literal or delta block")
    _read_block(lines)
    if lines.peek().startswith(b"@@ "):
        lines.fail("a hunk stands behind a binary change")
    return forward


def _read_block(lines: Lines) -> BinaryChange | None:
    at = lines.number
    match = _HEADER.fullmatch(lines.peek())
    if match is None:
        if lines.peek().startswith((b"literal ", b"delta ")):
            lines.fail("the head of a binary block is malformed")
        return None
    lines.take()
    size = int(match[2])
    if size > LIMIT:
        lines.fail(f"a binary block claims {size} bytes, the limit is {LIMIT}", line=at)
    packed = bytearray()
    while lines.peek() != b"\n":
        if lines.at_end:
            lines.fail("a binary block is cut short: the empty line that ends it is missing")
        try:
            packed += _decode_line(lines.peek().removesuffix(b"\n"))
        except ValueError as error:
            lines.fail(f"a binary line is corrupt: {error}")
        lines.take()
    lines.take()
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(bytes(packed), size + 1)
    except zlib.error as error:
        lines.fail(f"a binary block does not inflate: {error}", line=at)
    if len(data) != size or not inflate.eof:
        lines.fail(f"a binary block inflates to another size than {size} bytes", line=at)
    return BinaryChange(match[1] == b"delta", data)


def _decode_line(line: bytes) -> bytes:
    """Decode one line: a letter for the length, then base85."""
    length = _LENGTHS.find(line[:1]) + 1
    if not (line and length):
        raise ValueError("it does not start with its length")
    data = base64.b85decode(line[1:])
    if len(line) % 5 != 1 or len(data) != (length + 3) // 4 * 4:
        raise ValueError("its length is not what its first letter says")
    return data[:length]


def apply_delta(old: bytes, delta: bytes) -> bytes:
    """Apply a git delta: two sizes, then copies from `old` and insertions."""
    if len(delta) < 4:  # git's own floor: two sizes and an opcode with its argument
        raise ValueError("the delta is cut short")
    try:
        old_size, at = _varint(delta, 0)
        new_size, at = _varint(delta, at)
        if old_size != len(old):
            raise ValueError(f"the delta is for {old_size} bytes, the content has {len(old)}")
        if new_size > LIMIT:
            raise ValueError(f"the delta promises {new_size} bytes, the limit is {LIMIT}")
        out = bytearray()
        while at < len(delta):
            opcode = delta[at]
            at += 1
            if opcode & 0x80:
                offset, size, at = _copy_arguments(delta, at, opcode)
                if offset + size > len(old):
                    raise ValueError("the delta copies from beyond the content")
                out += old[offset : offset + size]
            elif opcode:
                out += delta[at : at + opcode]
                at += opcode
                if at > len(delta):
                    raise ValueError("the delta is cut short")
            else:
                raise ValueError("the delta holds a reserved opcode")
            if len(out) > new_size:
                break
    except IndexError:
        raise ValueError("the delta is cut short") from None
    if len(out) != new_size:
        raise ValueError(f"the delta makes {len(out)} bytes, it promises {new_size}")
    return bytes(out)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _copy_arguments(delta: bytes, at: int, opcode: int) -> tuple[int, int, int]:
    """Read a copy's offset (up to 4 bytes) and size (up to 3), each byte behind a flag."""
    values = []
    for first, count in ((0, 4), (4, 3)):
        value = 0
        for index in range(count):
            if opcode & (1 << (first + index)):
                value |= delta[at] << (8 * index)
                at += 1
        values.append(value)
    offset, size = values
    return offset, size or 0x10000, at
