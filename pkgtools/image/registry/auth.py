"""Find the credentials and certificates for a registry where docker and podman store them."""

import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import docker.auth
from docker.errors import DockerException
from requests.adapters import DEFAULT_POOLSIZE, HTTPAdapter
from requests.utils import parse_dict_header

from pkgtools.errors import RegistryError, UsageError
from pkgtools.image.layer import parents

AUTH_FILE: Final = "REGISTRY_AUTH_FILE"
"""The variable with the file of podman and skopeo (containers-auth.json(5))."""
_CERTIFICATES: Final = ("/etc/containers/certs.d", "/etc/docker/certs.d")
_SCHEME: Final = re.compile(r"\s*(Basic|Bearer)\s+(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Credentials:
    """A user's credentials for one registry; repr() omits them."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    """An OAuth2 refresh token instead of a password."""


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
        own = f"{host}/{repository}"
        for key in filter(None, (own, *parents(own))):  # the most specific first
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


def bearer_of(header: str, host: str) -> dict[str, str] | None:
    """Return the parameters of a Bearer challenge (RFC 9110, 11.6.1); None for a Basic one."""
    # One header can have several challenges.
    parts = re.split(r",\s*(?=(?:Basic|Bearer)\s)", header, flags=re.IGNORECASE)
    found = {match[1].lower(): match[2] for part in parts if (match := _SCHEME.fullmatch(part))}
    facts = parse_dict_header(found.get("bearer", ""))  # type: ignore[no-untyped-call]
    if not found or ("bearer" in found and not facts.get("realm")):
        raise RegistryError(
            f"{host} asks for an unknown kind of authentication",
            remedy="pkgtools supports Basic and Bearer",
        )
    return {key: value or "" for key, value in facts.items()} if "bearer" in found else None


def adapter_of(host: str) -> HTTPAdapter | None:
    """Return an adapter with the certificates of a registry; None if the user has none for it.

    ``*.crt`` are authorities, each ``*.cert`` a client's certificate with its ``*.key`` beside it
    (containers-certs.d(5)).
    """
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    for root in (f"{config}/containers/certs.d", *_CERTIFICATES):
        folder = Path(root, host)
        found = sorted([*folder.glob("*.crt"), *folder.glob("*.cert")])
        if not found:
            continue
        context = ssl.create_default_context()
        try:
            for path in found:
                if path.suffix == ".crt":
                    context.load_verify_locations(path)
                else:
                    context.load_cert_chain(path, path.with_suffix(".key"), password="")
        except OSError as error:  # ssl.SSLError, too
            raise UsageError(
                f"{path} cannot be used: {error.strerror or type(error).__name__}",
                remedy=f"correct it, or remove it from {folder}",
            ) from None
        adapter = HTTPAdapter()  # requests adds its own bundle of authorities to the context
        adapter.init_poolmanager(DEFAULT_POOLSIZE, DEFAULT_POOLSIZE, ssl_context=context)
        return adapter
    return None
