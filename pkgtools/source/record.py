"""RECORD, the package manager's list of a distribution's files, kept true.

The format is the one of PEP 376 and the PyPA's "Recording installed projects"
(https://packaging.python.org/en/latest/specifications/recording-installed-packages/):
CSV rows of path, ``sha256=`` and unpadded URL-safe base64, and size.
"""

import base64
import csv
import hashlib
import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from pkgtools.blob import SYMLINK, Blob
from pkgtools.errors import TreeError
from pkgtools.util.files import read_bytes


class RecordEdit(msgspec.Struct, forbid_unknown_fields=True):
    """What an edit of RECORD took out, so that it can be undone to the byte."""

    sha256: str
    """Of the whole file before."""
    kept: int
    """The number of rows that stayed; new rows follow them."""
    dropped: list[tuple[int, bytes]]
    """Rows that were taken out, with their line ends, and their 0-based places."""


def drop_rows(raw: bytes, paths: Collection[str]) -> tuple[bytes, RecordEdit]:
    """Take out the rows of `paths`, as RECORD writes them: relative to its site-packages."""
    kept: list[bytes] = []
    dropped: list[tuple[int, bytes]] = []
    for number, row in enumerate(raw.splitlines(keepends=True)):
        if row_path(row) in paths:
            dropped.append((number, row))
        else:
            kept.append(row)
    return b"".join(kept), RecordEdit(hashlib.sha256(raw).hexdigest(), len(kept), dropped)


def add_rows(raw: bytes, files: Mapping[str, bytes | None]) -> bytes:
    """Append a row for each file; None is the content of a symbolic link, which has no hash."""
    rows = [make_row(path, data) for path, data in sorted(files.items())]
    return _join(raw.splitlines(keepends=True), rows)


def restore_record(raw: bytes, edit: RecordEdit, added: Collection[str]) -> bytes:
    """Undo an edit: to the byte if nothing else changed since, else row by row."""
    rows = raw.splitlines(keepends=True)
    exact = rows[: edit.kept]
    for number, row in edit.dropped:
        # In ascending order, each insertion finds its original place.
        exact.insert(number, row)
    # An appended row gave the last row before it a line end, where that lacked one.
    for whole in (b"".join(exact), b"".join(exact).removesuffix(_line_end(rows))):
        if hashlib.sha256(whole).hexdigest() == edit.sha256:
            return whole
    gone = {*added, *(row_path(row) for _, row in edit.dropped)}
    return _join([r for r in rows if row_path(r) not in gone], [row for _, row in edit.dropped])


def recorded(record: Path) -> dict[str, str]:
    """Return the files that a RECORD lists, each with its hash as written; empty without one."""
    return recorded_in(read_bytes(record), str(record))


def recorded_in(raw: bytes, label: str) -> dict[str, str]:
    """Return the same of a RECORD's content."""
    text = raw.decode("utf-8", "surrogateescape")
    try:
        # newline="": the csv module must see a CR inside quotes (https://docs.python.org/3/library/csv.html).
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise TreeError(f"{label}: {error}", remedy="reinstall the package") from None
    return {row[0]: row[1] for row in rows if len(row) > 1}


def row_path(row: bytes) -> str:
    """Return a row's path; empty where it has none."""
    text = row.decode("utf-8", "surrogateescape")
    # RFC 4180: only a quoted field can contain a comma, a quote or a line end.
    if '"' not in text:  # nearly every row; the csv module takes ten times as long
        return text.rstrip("\r\n").partition(",")[0]
    try:
        fields = next(csv.reader([text]), [])
    except csv.Error:  # a damaged row, which is kept as it is
        fields = []
    return fields[0] if fields else ""


def rename_row(row: bytes, path: str) -> bytes:
    """Return a row with another path, ending in LF."""
    fields = next(csv.reader([row.decode("utf-8", "surrogateescape")]))
    return _write_row([path, *fields[1:]])


def row_data(blob: Blob) -> bytes | None:
    """Return what RECORD hashes of a file: a symbolic link's row has no hash."""
    return None if blob.mode == SYMLINK else blob.data


def make_row(path: str, data: bytes | None) -> bytes:
    """Return the row of a file, ending in LF."""
    fields: list[object] = [path, "", ""]
    if data is not None:
        # PEP 427: URL-safe base64 without padding.
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        fields = [path, f"sha256={digest}", len(data)]
    return _write_row(fields)


def _write_row(fields: Sequence[object]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(fields)
    return out.getvalue().encode("utf-8", "surrogateescape")


def _join(rows: list[bytes], more: list[bytes]) -> bytes:
    """Append rows, with the line end that the file has."""
    end = _line_end(rows)
    if rows and not rows[-1].endswith(b"\n"):
        rows = [*rows[:-1], rows[-1] + end]
    return b"".join(rows) + b"".join(row.rstrip(b"\r\n") + end for row in more)


def _line_end(rows: list[bytes]) -> bytes:
    # Some installers write CRLF, the default of Python's csv module (RFC 4180).
    return b"\r\n" if rows and rows[0].endswith(b"\r\n") else b"\n"
