"""TOML files read strictly, with the file, the key and the line in every error."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import msgspec

from pkgtools.errors import FilePlace, MalformedError
from pkgtools.util.files import read_text

T = TypeVar("T")

_TABLE: Final = re.compile(r"\s*(\[\[?)\s*([\w.\s\"'-]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"\s*([\w\"'-]+)\s*[.=]")
_AT: Final = re.compile(r"(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
_FIELD: Final = re.compile(r"unknown field `([^`]+)`")
_SYNTAX_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")


@dataclass(frozen=True)
class KeyPlace(FilePlace):
    """The place of a fault in a TOML file."""

    key: str


class TomlFile:
    """One file's text, kept so that an error can name a line; and the remedy for its faults."""

    def __init__(self, path: Path, remedy: str | None = None) -> None:
        self.path = path
        self.remedy = remedy
        try:
            self.text = read_text(path)
        except FileNotFoundError:
            raise MalformedError(f"{path} is missing", remedy=remedy) from None

    def decode(self, kind: type[T]) -> T:
        """Return the file as `kind`."""
        try:
            return msgspec.toml.decode(self.text, type=kind)
        except msgspec.ValidationError as error:
            self.fail(*message_and_key(error))
        except (msgspec.DecodeError, RecursionError) as error:
            line = _SYNTAX_LINE.search(str(error))
            where = f"{self.path}:{line[1]}" if line else str(self.path)
            raise MalformedError(f"{where}: {error}", remedy=self.remedy) from None

    def fail(self, message: str, key: str, *, remedy: str | None = None) -> NoReturn:
        """Raise with the place of `key`, which is written ``.target[2].alias[0].name``."""
        line = self.line_of(key)
        shown = key.lstrip(".") or "the file"
        raise MalformedError(
            f"{self.path}:{line}: {shown}: {message}",
            remedy=remedy or self.remedy,
            details=KeyPlace(str(self.path), line, shown),
        )

    def has(self, key: str) -> bool:
        """Whether the file has `key` on a line of its own."""
        return key in self._lines_by_key()

    def line_of(self, key: str) -> int:
        """Return the line of `key`, or of the nearest thing around it that has one."""
        lines = self._lines_by_key()
        while key and key not in lines:
            key = key[: max(key.rfind("."), key.rfind("["))]
        return lines.get(key, 1)

    def _lines_by_key(self) -> dict[str, int]:
        lines: dict[str, int] = {}
        counts: dict[str, int] = {}
        table = ""
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := _TABLE.match(line):
                table = _open_table(header[2], counts, array=header[1] == "[[")
                lines.setdefault(table, number)
            elif key := _KEY.match(line):
                lines.setdefault(f"{table}.{key[1].strip(chr(34) + chr(39))}", number)
        return lines


def message_and_key(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return what is wrong, and the key as `TomlFile.fail` takes it."""
    match = _AT.fullmatch(str(error))
    message, at = (match[1], match[2] or "") if match else (str(error), "")
    at = at.partition("[...]")[0]  # inside a table of any keys, which msgspec does not name
    unknown = _FIELD.search(message)
    return message, f"{at}.{unknown[1]}" if unknown else at


def _open_table(name: str, counts: dict[str, int], *, array: bool) -> str:
    """Return the key of the table that a header opens, its elements numbered."""
    path = ""
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    for part in parts[:-1]:
        path += f".{part}"
        if path in counts:
            path += f"[{counts[path] - 1}]"
    path += f".{parts[-1]}"
    if array:
        counts[path] = counts.get(path, 0) + 1
        path += f"[{counts[path] - 1}]"
    return path
