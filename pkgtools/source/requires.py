"""The dependencies of a package, as METADATA has them.

See https://packaging.python.org/en/latest/specifications/core-metadata/#requires-dist-multiple-use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Final

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_PYTHON: Final = re.compile(
    rb"^Requires-Python:([^\n]*(?:\n[ \t][^\n]*)*)", re.MULTILINE | re.IGNORECASE
)
_FIELD: Final = re.compile(
    rb"^Requires-Dist:((?:[^\n]*\n)(?:[ \t][^\n]*\n)*)", re.MULTILINE | re.IGNORECASE
)


def required_python(metadata: bytes) -> str | None:
    """Return the versions of Python that METADATA requires, or None.

    `packaging.metadata` reads it too, but takes 20 ms to import and read it.
    """
    found = _PYTHON.search(metadata, 0, _end(metadata))
    return " ".join(found[1].decode(errors="replace").split()) if found else None


def with_requirements(metadata: bytes, requires: Sequence[str]) -> bytes:
    """Return METADATA with requirements in place of those of the same name.

    Those of an extra stay: they are another set of dependencies.
    """
    end = _end(metadata)
    fields = metadata[:end]
    names = {canonicalize_name(_requirement(each).name) for each in requires}
    newline = b"\r\n" if b"\r\n" in fields else b"\n"
    fields += b"" if fields.endswith(b"\n") else newline
    kept, last = b"", 0
    for match in _FIELD.finditer(fields):
        found = _parsed(match)
        is_replaced = found is not None and canonicalize_name(found.name) in names
        kept += fields[last : match.start() if is_replaced else match.end()]
        last = match.end()
    lines = b"".join(b"Requires-Dist: " + each.encode() + newline for each in requires)
    # Behind the last requirement, or where there was none, behind the last field.
    kept += lines + fields[last:] if last else fields + lines
    return kept + metadata[end:]


def differing(metadata: bytes, requires: Sequence[str]) -> list[str]:
    """Return the requirements whose package METADATA requires otherwise, or not at all."""
    found = [_parsed(match) for match in _FIELD.finditer(metadata, 0, _end(metadata))]
    wanted = [_requirement(each) for each in requires]

    def of(requirements: Sequence[Requirement | None], name: str) -> list[Requirement]:
        return [r for r in requirements if r and canonicalize_name(r.name) == name]

    names = (canonicalize_name(requirement.name) for requirement in wanted)
    differs = [of(found, name) != of(wanted, name) for name in names]
    return list(compress(requires, differs))


def _end(metadata: bytes) -> int:
    """Return where the fields end: at the empty line before the description."""
    found = re.search(rb"^\r?$", metadata, re.MULTILINE)
    return found.start() if found else len(metadata)


def _requirement(text: str) -> Requirement:
    from packaging.requirements import Requirement  # noqa: PLC0415 - slow to import

    return Requirement(text)


def _parsed(field: re.Match[bytes]) -> Requirement | None:
    """Return a requirement; None for one of an extra, or that cannot be read."""
    try:
        found = _requirement(" ".join(field[1].decode().split()))
    except ValueError:  # invalid or not UTF-8: installers report it themselves
        return None
    return None if "extra" in str(found.marker or "") else found
