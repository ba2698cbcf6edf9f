"""Blobs and manifests into a registry (OCI distribution specification, "Push")."""

from __future__ import annotations

import contextlib
import io
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from pkgtools.errors import RegistryError
from pkgtools.image.layer import digest_of
from pkgtools.image.registry.client import TRIES, BrokenConnectionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pkgtools.image.registry.client import RegistryClient

_CHUNK: Final = 8 * 1024 * 1024
"""Bytes that are in memory at once; a blob of at most so many is sent by one request."""
_BINARY: Final = {"Content-Type": "application/octet-stream"}


class _LostUploadError(Exception):
    """The registry forgot an upload, or is at another place of it than can be gone on from."""


class Uploads:
    """What is pushed to one repository."""

    def __init__(self, client: RegistryClient, repository: str) -> None:
        self._client = client
        self._repository = repository

    def has(self, digest: str) -> bool:
        """Whether the repository has a blob."""
        path = f"{self._repository}/blobs/{digest}"
        with self._client.request("HEAD", path, ok={200, 404}) as response:
            return bool(response.status_code == 200)

    def mount(self, digest: str, source: str) -> bool:
        """Have a blob of another repository of the registry in this one; whether that was done."""
        query = urlencode({"mount": digest, "from": source})
        path = f"{self._repository}/blobs/uploads/?{query}"
        with self._client.request("POST", path, ok={201, 202}) as response:
            if response.status_code == 201:
                return True
            location = urljoin(response.url, response.headers.get("Location", ""))
        self._cancel(location)
        return False

    def push_bytes(self, data: bytes) -> None:
        """Push a blob that is in memory."""
        digest = digest_of(data)
        if not self.has(digest):
            self.push(digest, lambda: io.BytesIO(data))

    def push(self, digest: str, opened: Callable[[], AbstractContextManager[IO[bytes]]]) -> None:
        """Push a blob as it is read; it is opened again where the registry forgot the upload.

        Raises:
            RegistryError: the registry refuses, or forgets it each time.

        """
        for _ in range(TRIES):
            with contextlib.suppress(_LostUploadError), opened() as source:
                self._push_once(digest, source)
                return
        raise RegistryError(
            f"{self._client.host} forgot the upload of {digest} {TRIES} times", remedy="try again"
        )

    def put_manifest(self, reference: str, media_type: str, raw: bytes) -> bool:
        """Push a manifest; return whether the registry lists it as a referrer of its subject.

        A manifest is pushed when all that it names is there. A registry with the referrers API
        says so (OCI distribution specification, "Pushing Manifests with Subject").

        Raises:
            RegistryError: the registry refuses it, or has it by another digest.

        """
        path = f"{self._repository}/manifests/{reference}"
        headers = {"Content-Type": media_type}
        with self._client.request("PUT", path, ok={201}, headers=headers, data=raw) as response:
            said = response.headers.get("Docker-Content-Digest", "")
            is_listed = "OCI-Subject" in response.headers
        if said.startswith("sha256:") and said != digest_of(raw):
            raise RegistryError(
                f"{self._client.host} has {self._repository} as {said[:71]!r}, not as "
                f"{digest_of(raw)}",
                remedy="this is not a sound registry",
            )
        return is_listed

    def _push_once(self, digest: str, source: IO[bytes]) -> None:
        path = f"{self._repository}/blobs/uploads/"
        with self._client.request("POST", path, ok={202}) as response:
            location = self._location(response)
        start = 0
        try:
            chunk = _read(source)
            while more := _read(source):
                location = self._patch(location, start, chunk)
                start += len(chunk)
                chunk = more
        except BaseException:
            self._cancel(location)  # nothing is left of what was read badly, or not to its end
            raise
        if start:
            location = self._patch(location, start, chunk)
            chunk = b""
        self._finish(location, digest, chunk)

    def _finish(self, location: str, digest: str, data: bytes) -> None:
        parts = urlsplit(location)
        query = urlencode([*parse_qsl(parts.query, keep_blank_values=True), ("digest", digest)])
        url = urlunsplit(parts._replace(query=query))
        for count in range(TRIES):
            try:
                with self._request("PUT", url, {201, 204, 404}, data) as response:
                    if response.status_code != 404 or self.has(digest):
                        return
                    break
            except BrokenConnectionError as error:  # the request was lost, or the answer
                self._client.pause(error, count)
            if self.has(digest):
                return
            if data and self._status(location)[1]:  # some of it arrived, and would be there twice
                break
        self._cancel(location)
        raise _LostUploadError

    def _patch(self, location: str, start: int, chunk: bytes) -> str:
        """Send a part of a blob; return where the next one goes."""
        for count in range(TRIES):
            headers = {"Content-Range": f"{start}-{start + len(chunk) - 1}"}
            try:
                response = self._request("PATCH", location, {202, 404, 416}, chunk, headers)
            except BrokenConnectionError as error:
                self._client.pause(error, count)
            else:
                with response:
                    if response.status_code == 202:
                        return self._location(response)
            location, at = self._status(location)
            done = at - start
            if not 0 <= done <= len(chunk):
                raise _LostUploadError
            start, chunk = at, chunk[done:]
            if not chunk:
                return location
        raise RegistryError(f"{self._client.host} takes no part of an upload", remedy="try again")

    def _status(self, location: str) -> tuple[str, int]:
        """Return where an upload goes on, and how many bytes the registry has of it."""
        with self._client.request("GET", location, ok={204, 404}) as response:
            said = response.headers.get("Range", "").removeprefix("bytes=").partition("-")[2]
            if response.status_code == 404 or not (said.isascii() and said.isdigit()):
                raise _LostUploadError
            # Nothing is 0-0, too; no part is of one byte but the last, which is then sent again.
            return self._location(response), int(said[:18]) + 1 if said != "0" else 0

    def _request(
        self,
        method: str,
        url: str,
        ok: set[int],
        data: bytes,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a part of an upload, once: whether a broken one arrived is asked first."""
        headers = {**_BINARY, **(headers or {})}
        return self._client.request_once(method, url, ok=ok, headers=headers, data=data)

    def _location(self, response: Any) -> str:
        """Return where the registry takes an upload.

        Raises:
            RegistryError: it does not say, or somewhere that nothing is sent to.

        """
        location = response.headers.get("Location", "")
        if not location:
            raise RegistryError(
                f"{self._client.host} does not say where an upload goes",
                remedy="this is not a sound registry",
            )
        return self._client.followed(response.url, location)

    def _cancel(self, location: str) -> None:
        with (
            contextlib.suppress(RegistryError),
            self._client.request_once("DELETE", location, ok={204, 404}),
        ):
            pass


def _read(source: IO[bytes]) -> bytes:
    """Return the next part of a stream, whole unless it is the last."""
    parts, size = [], 0
    while size < _CHUNK and (part := source.read(_CHUNK - size)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
