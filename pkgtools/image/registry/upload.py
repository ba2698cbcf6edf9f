"""Push blobs and manifests.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#push
"""

import contextlib
import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import IO, Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

from pkgtools.errors import RegistryError
from pkgtools.image.layer import digest_of
from pkgtools.image.registry.client import TRIES, BrokenConnectionError, RegistryClient
from pkgtools.image.streams import Forward

_CHUNK: Final = 8 * 1024 * 1024
"""Bytes of a chunk, which is held in memory; smaller blobs are sent in one request."""
_BINARY: Final = {"Content-Type": "application/octet-stream"}


class _LostUploadError(Exception):
    """An upload that cannot be resumed and starts again."""


class Uploads:
    """Uploads to one repository."""

    def __init__(self, client: RegistryClient, repository: str) -> None:
        self._client = client
        self._repository = repository

    def has(self, digest: str) -> bool:
        """Return whether the repository has a blob."""
        path = f"{self._repository}/blobs/{digest}"
        with self._client.request("HEAD", path, ok={200, 404}) as response:
            return bool(response.status_code == 200)

    def mount(self, digest: str, source: str) -> bool:
        """Mount a blob from another repository of the registry; return whether that worked."""
        # https://github.com/opencontainers/distribution-spec/blob/main/spec.md#mounting-a-blob-from-another-repository
        # A registry that does not mount starts an upload instead (202), which is cancelled.
        query = urlencode({"mount": digest, "from": source})
        path = f"{self._repository}/blobs/uploads/?{query}"
        with self._client.request("POST", path, ok={201, 202}) as response:
            if response.status_code == 201:
                return True
            location = urljoin(response.url, response.headers.get("Location", ""))
        self._cancel(location)
        return False

    def push_bytes(self, data: bytes) -> None:
        """Push bytes as a blob, unless the repository has it."""
        digest = digest_of(data)
        if not self.has(digest):
            self.push(digest, lambda: io.BytesIO(data))

    def push(self, digest: str, opened: Callable[[], AbstractContextManager[IO[bytes]]]) -> None:
        """Push a blob while it is read; it is opened again for each new try."""
        for _ in range(TRIES):
            with contextlib.suppress(_LostUploadError), opened() as source:
                self._push_once(digest, source)
                return
        raise RegistryError(
            f"{self._client.host} lost the upload of {digest} {TRIES} times", remedy="try again"
        )

    def put_manifest(self, reference: str, media_type: str, raw: bytes) -> bool:
        """Push a manifest; return whether the registry lists it as a referrer of its subject.

        A manifest is pushed when all that it names is there. A registry with the referrers API
        says so (OCI distribution specification, "Pushing Manifests with Subject").
        """
        path = f"{self._repository}/manifests/{reference}"
        headers = {"Content-Type": media_type}
        with self._client.request("PUT", path, ok={201}, headers=headers, data=raw) as response:
            said = response.headers.get("Docker-Content-Digest", "")
            is_listed = "OCI-Subject" in response.headers
        if said.startswith("sha256:") and said != digest_of(raw):
            raise RegistryError(
                f"{self._client.host} stored {self._repository} as {said[:71]!r}, not as "
                f"{digest_of(raw)}",
                remedy="this is not a sound registry",
            )
        return is_listed

    def _push_once(self, digest: str, source: IO[bytes]) -> None:
        path = f"{self._repository}/blobs/uploads/"
        with self._client.request("POST", path, ok={202}) as response:
            location = self._location(response)
        start, stream = 0, Forward(source)
        try:
            chunk = stream.read(_CHUNK)
            while more := stream.read(_CHUNK):
                location = self._patch(location, start, chunk)
                start += len(chunk)
                chunk = more
        except BaseException:
            self._cancel(location)  # leave no incomplete upload behind
            raise
        if start:
            location = self._patch(location, start, chunk)
            chunk = b""
        self._finish(location, digest, chunk)

    def _finish(self, location: str, digest: str, data: bytes) -> None:
        url = f"{location}{'&' if urlsplit(location).query else '?'}{urlencode({'digest': digest})}"
        for count in range(TRIES):
            try:
                ok = {201, 204, 404}
                with self._client.request(
                    "PUT", url, ok=ok, headers=_BINARY, data=data, tries=1
                ) as response:
                    if response.status_code != 404 or self.has(digest):
                        return
                    break
            except BrokenConnectionError as error:  # the request or the response was lost
                self._client.pause(error, count)
            if self.has(digest):
                return
            if data and self._status(location)[1]:  # a part arrived and must not be sent twice
                break
        self._cancel(location)
        raise _LostUploadError

    def _patch(self, location: str, start: int, chunk: bytes) -> str:
        """Send a chunk; return the URL for the next one."""
        for count in range(TRIES):
            # The OCI distribution specification has no "bytes " prefix here, unlike RFC 9110.
            headers = {**_BINARY, "Content-Range": f"{start}-{start + len(chunk) - 1}"}
            ok = {202, 404, 416}
            try:  # once: what arrived of a chunk must be asked before the next try
                response = self._client.request(
                    "PATCH", location, ok=ok, headers=headers, data=chunk, tries=1
                )
            except BrokenConnectionError as error:
                self._client.pause(error, count)
            else:
                with response:
                    if response.status_code == 202:
                        return self._location(response)
            location, at = self._status(location)
            done = at - start
            # The registry has other bytes than were sent: only a new upload is certain.
            if not 0 <= done <= len(chunk):
                raise _LostUploadError
            start, chunk = at, chunk[done:]
            if not chunk:
                return location
        raise RegistryError(f"{self._client.host} accepts no chunk", remedy="try again")

    def _status(self, location: str) -> tuple[str, int]:
        """Return the URL to resume an upload, and the number of bytes that arrived."""
        with self._client.request("GET", location, ok={204, 404}) as response:
            said = response.headers.get("Range", "").removeprefix("bytes=").partition("-")[2]
            if response.status_code == 404 or not (said.isascii() and said.isdigit()):
                raise _LostUploadError
            # "0-0" can mean no byte or one; only a last chunk has one byte, and it is sent again.
            return self._location(response), int(said[:18]) + 1 if said != "0" else 0

    def _location(self, response: Any) -> str:
        location = response.headers.get("Location", "")
        if not location:
            raise RegistryError(
                f"{self._client.host} sent no location for an upload",
                remedy="this is not a sound registry",
            )
        return self._client.followed(response.url, location)

    def _cancel(self, location: str) -> None:
        with (
            contextlib.suppress(RegistryError),
            self._client.request("DELETE", location, ok={204, 404}, tries=1),
        ):
            pass
