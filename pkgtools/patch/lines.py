"""A cursor over the lines of a patch file, which knows where it is."""

from typing import NoReturn

from pkgtools.errors import FilePlace, MalformedError
from pkgtools.util.lines import split


class Lines:
    """The lines of one patch file, each with its own line end, read once from the top.

    Lines end at LF alone: a CR belongs to the content, or a patch on a CRLF file
    would lose it.
    """

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.data = data
        self._lines = split(data)
        self._at = 0

    @property
    def number(self) -> int:
        """The 1-based number of the next line."""
        return self._at + 1

    def peek(self, ahead: int = 0) -> bytes:
        """Return a line without taking it; past the end, nothing."""
        at = self._at + ahead
        return self._lines[at] if at < len(self._lines) else b""

    def take(self) -> bytes:
        """Return the next line and step over it; at the end, nothing."""
        line = self.peek()
        self._at += 1
        return line

    @property
    def at_end(self) -> bool:
        """Whether every line was taken."""
        return self._at >= len(self._lines)

    def fail(self, message: str, *, line: int | None = None, remedy: str | None = None) -> NoReturn:
        """Raise a `MalformedError` that names the file and the line."""
        where = self.number if line is None else line
        raise MalformedError(
            f"{self.name}:{where}: {message}",
            remedy=remedy,
            details=FilePlace(self.name, where),
        )


def text(raw: bytes) -> str:
    """Return `raw` as text that a terminal and JSON can hold."""
    return raw.decode("utf-8", "backslashreplace")
