"""Environment markers of targets (PEP 508), as a requirement has them behind its ``;``.

A release can need other patches on other Pythons or platforms. Each outcome is a target of its
own, with its own series and lockfile; the patches that they share are kept once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from packaging.tags import Tag

VARIABLES: Final = frozenset(
    {
        "implementation_name",
        "os_name",
        "platform_machine",
        "platform_system",
        "python_version",
        "sys_platform",
    }
)
"""Facts of an environment that never change, in the words of
https://packaging.python.org/en/latest/specifications/dependency-specifiers/#environment-markers"""
_TEXT: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORD: Final = re.compile(r"(?!(?:and|or|not|in)\b)\b[a-z_.]+")
_CPYTHON: Final = re.compile(r"cp(\d)(\d+)")
_PLATFORMS: Final = (
    (re.compile(r"(?:many|musl)?linux\w*?_(x86_64|aarch64|armv7l|i686|ppc64le|s390x)"), "linux"),
    (re.compile(r"macosx_\d+_\d+_(x86_64|arm64|universal2)"), "darwin"),
    (re.compile(r"win(?:32|_(amd64|arm64))"), "win32"),
)
_SYSTEMS: Final = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}


def variables_of(marker: str) -> frozenset[str]:
    """Return the variables of a marker."""
    return frozenset(_WORD.findall(_TEXT.sub("", marker)))


def holds(marker: str, environment: Mapping[str, str]) -> bool | None:
    """Return whether a marker is true of an environment; None if a variable is not known."""
    from packaging.markers import Marker  # noqa: PLC0415 - few catalogs have markers

    if not variables_of(marker) <= environment.keys():
        return None
    return Marker(marker).evaluate(dict(environment))


def environment_of_tag(tag: Tag) -> dict[str, str]:
    """Return the variables that a wheel's tag determines (PEP 425)."""
    found: dict[str, str] = {}
    exact = _CPYTHON.fullmatch(tag.interpreter)
    if exact is not None and tag.abi != "abi3":
        found |= {"python_version": f"{exact[1]}.{exact[2]}", "implementation_name": "cpython"}
    for pattern, name in _PLATFORMS:
        if match := pattern.fullmatch(tag.platform):
            os_name = "nt" if name == "win32" else "posix"
            system = _SYSTEMS[name]
            found |= {"sys_platform": name, "platform_system": system, "os_name": os_name}
            machine = match[1] or "x86"
            if machine != "universal2":
                found["platform_machine"] = machine.upper() if os_name == "nt" else machine
    return found


def requirement_fault(text: str) -> str | None:
    """Return what is wrong with a requirement (PEP 508), or None."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - few have one

    try:
        Requirement(text)
    except InvalidRequirement as error:
        return str(error).splitlines()[0]
    return None
