"""Find the credentials for a registry where docker and podman store them."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import docker.auth
from docker.errors import DockerException
from requests.utils import parse_dict_header

from pkgtools.errors import RegistryError, UsageError

AUTH_FILE: Final = "REGISTRY_AUTH_FILE"
"""The variable with the file of podman and skopeo (containers-auth.json(5))."""
_SCHEME: Final = re.compile(r"\s*(Basic|Bearer)\s+(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Credentials:
    """A user's credentials for one registry; repr() omits them."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    """An OAuth2 refresh token instead of a password."""


@dataclass(frozen=True)
class Challenge:
    """An authentication challenge (RFC 9110, section 11.6.1)."""

    is_bearer: bool
    realm: str = ""
    service: str = ""


def credentials_of(host: str, repository: str) -> Credentials | None:
    """Return the user's credentials for a repository, or None.

    They come from docker's configuration in DOCKER_CONFIG or ~/.docker, with credential helpers.
    REGISTRY_AUTH_FILE takes precedence, and can have credentials for a part of a registry.
    """
    path = os.environ.get(AUTH_FILE)
    if path and not Path(path).is_file():
        raise UsageError(
            f"{AUTH_FILE}: {path} is not a file",
            remedy=f"log in: skopeo login --authfile FILE {host}; or unset it",
        )
    try:
        config = docker.auth.load_config(config_path=path or None)
        for key in _keys(host, repository):
            found = config.auths.get(key) if key != host else config.resolve_authconfig(host)
            if found:
                # The keys of a credential helper's answer are written with capitals.
                facts = {name.lower(): value for name, value in found.items() if value}
                return Credentials(
                    facts.get("username", ""),
                    facts.get("password", ""),
                    facts.get("identitytoken", ""),
                )
    except (DockerException, ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        # Its text can have a part of what it failed to read.
        raise UsageError(
            f"the credentials for {host} cannot be read: {type(error).__name__}",
            remedy=f"log in again: docker login {host}",
        ) from None
    return None


def challenge_of(header: str, host: str) -> Challenge:
    """Return the challenge of a response with status 401."""
    found = {}
    # One header can have several challenges (RFC 9110, 11.6.1).
    for part in re.split(r",\s*(?=(?:Basic|Bearer)\s)", header, flags=re.IGNORECASE):
        match = _SCHEME.fullmatch(part)
        if match:
            facts: dict[str, str | None] = parse_dict_header(match[2])  # type: ignore[no-untyped-call]
            kind = match[1].lower() == "bearer"
            found[kind] = Challenge(kind, facts.get("realm") or "", facts.get("service") or "")
    if not found or (True in found and not found[True].realm):
        raise RegistryError(
            f"{host} asks for an unknown kind of authentication",
            remedy="pkgtools supports Basic and Bearer",
        )
    return found.get(True) or found[False]


def _keys(host: str, repository: str) -> Iterator[str]:
    """Yield the keys that credentials can have, the most specific first."""
    path = f"{host}/{repository}"
    while path:
        yield path
        path = path.rpartition("/")[0]
