"""Names of images in engines and registries.

The grammar is that of https://pkg.go.dev/github.com/distribution/reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pkgtools.errors import UsageError

# The prefixes of images' names outside an engine (containers-transports(5)).
REGISTRY: Final = "docker://"
LAYOUT: Final = "oci:"
ARCHIVE: Final = "docker-archive:"
_DOCKER_HUB: Final = "docker.io"

# The prefixes of other transports are excluded: docker-archive:x.tar would be a repository and
# a tag. The id of an image is a valid name of a repository.
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
NAME: Final = re.compile(
    rf"(?!{LAYOUT}|{ARCHIVE}|docker:/)(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?",
    re.ASCII,
)
"""A name that can be given to an image."""
REFERENCE: Final = re.compile(rf"{NAME.pattern}(?:@[A-Za-z][\w+.-]*:[0-9A-Fa-f]{{32,}})?", re.ASCII)
"""A name by which an engine finds an image."""

_IN_REGISTRY: Final = re.compile(
    rf"(?:(?P<host>(?=[^/]*[.:]|localhost/){_HOST})/)?(?P<repository>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)


@dataclass(frozen=True)
class RegistryName:
    """The name of an image in a registry."""

    host: str
    """With the port, if any."""
    repository: str
    tag: str
    digest: str | None

    @classmethod
    def parse(cls, reference: str) -> RegistryName:
        """Parse ``docker://HOST/NAME[:TAG|@DIGEST]``.

        The default host is Docker Hub, as in skopeo; the default tag is ``latest``.
        """
        match = _IN_REGISTRY.fullmatch(reference.removeprefix(REGISTRY))
        if match is None or not reference.startswith(REGISTRY):
            raise UsageError(
                f"invalid image name {reference!r}",
                remedy=f"give {REGISTRY}HOST/NAME[:TAG|@sha256:DIGEST]",
            )
        host, repository = match["host"] or _DOCKER_HUB, match["repository"]
        if host == _DOCKER_HUB and "/" not in repository:
            repository = f"library/{repository}"
        return cls(host, repository, match["tag"] or "latest", match["digest"])

    @property
    def name(self) -> str:
        """The name by which an engine pulls the image."""
        tag = f"@{self.digest}" if self.digest else f":{self.tag}"
        return f"{self.host}/{self.repository}{tag}"

    @property
    def reference(self) -> str:
        """The tag or digest of the manifest."""
        return self.digest or self.tag


def split_tag(name: str) -> tuple[str, str]:
    """Return a name's repository and tag; the default tag is ``latest``."""
    name = name.partition("@")[0]
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "latest")


def with_tag(name: str) -> str:
    """Return a name with its tag, as archives have it."""
    return ":".join(split_tag(name))
