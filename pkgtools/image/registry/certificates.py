"""Use the TLS certificates that docker and podman use for a registry (containers-certs.d(5))."""

import os
import ssl
from pathlib import Path
from typing import Any, Final

from requests.adapters import HTTPAdapter

from pkgtools.errors import UsageError

_FOLDERS: Final = ("/etc/containers/certs.d", "/etc/docker/certs.d")


class _OwnCertificates(HTTPAdapter):
    """An adapter with a TLS context, to which requests adds its own bundle of authorities."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **settings: Any) -> None:
        """Pass the context to each connection."""
        super().init_poolmanager(*args, **settings, ssl_context=self._context)


def adapter_of(host: str) -> HTTPAdapter | None:
    """Return an adapter with the certificates of a registry; None if the user has none for it.

    ``*.crt`` are authorities, each ``*.cert`` a client's certificate with its ``*.key`` beside it.
    """
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    for root in (f"{config}/containers/certs.d", *_FOLDERS):
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
        return _OwnCertificates(context)
    return None
