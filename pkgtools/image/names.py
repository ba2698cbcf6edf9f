"""The names that engines and registries have for images."""

from __future__ import annotations

import re
from typing import Final

# The grammar of https://pkg.go.dev/github.com/distribution/reference. The kinds that lie on
# disk would be taken for repositories: docker-archive:x.tar. An id is a repository by it, too.
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
NAME: Final = re.compile(
    rf"(?!oci:|docker-archive:)(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?", re.ASCII
)
"""A name that an image can be given."""
REFERENCE: Final = re.compile(rf"{NAME.pattern}(?:@[A-Za-z][\w+.-]*:[0-9A-Fa-f]{{32,}})?", re.ASCII)
"""What an engine can be asked for."""


def split_tag(name: str) -> tuple[str, str]:
    """Return a name's repository and its tag, which is ``latest`` where none is given."""
    name = name.partition("@")[0]
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "latest")


def with_tag(name: str) -> str:
    """Return a name with its tag: archives have no other."""
    return ":".join(split_tag(name))
