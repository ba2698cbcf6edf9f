"""Read blobs of a registry as streams that resume after a break and check the digest."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, cast

from pkgtools.errors import RegistryError
from pkgtools.image.layer import damaged, verified
from pkgtools.image.registry.client import BROKEN, TRIES, BrokenConnectionError, RegistryClient

_PART: Final = 256 * 1024
_SLOW_SECONDS: Final = 120
_SLOW_BYTES: Final = 64 * 1024
"""Downloads that transfer less than this in that time are aborted."""


@contextlib.contextmanager
def open_blob(
    client: RegistryClient, repository: str, descriptor: Mapping[str, Any], label: str
) -> Iterator[IO[bytes]]:
    """Open a blob for reading forwards; on leaving, the rest is read and the digest checked."""
    stream = BlobStream(client, repository, descriptor, label)
    with (
        contextlib.closing(stream),
        verified(cast("IO[bytes]", stream), descriptor["digest"], label) as blob,
    ):
        yield blob


def read_range(client: RegistryClient, path: str, start: int, end: int) -> bytes | None:
    """Return a part of a blob; None if the registry does not support ranges (RFC 9110, section 14).

    Raises:
        RegistryError: the registry refuses, or breaks off too often.
    """

    def attempt() -> bytes | None:
        headers = {"Range": f"bytes={start}-{end - 1}"}
        with client.request("GET", path, ok={200, 206, 416}, headers=headers, tries=1) as response:
            said = response.headers.get("Content-Range", "")
            # A server may ignore Range and send 200 with everything (RFC 9110, section 14.2).
            if response.status_code != 206 or not said.startswith(f"bytes {start}-{end - 1}/"):
                return None
            part = client.body(response, end - start)
        if len(part) != end - start:
            raise BrokenConnectionError(
                f"{client.host} broke off bytes {start} to {end} of {path}", remedy="try again"
            )
        return part

    return client.retried(attempt)


class BlobStream:
    """A blob as a stream; after a break it resumes with a range request (RFC 9110, section 14)."""

    def __init__(
        self, client: RegistryClient, repository: str, descriptor: Mapping[str, Any], label: str
    ) -> None:
        self._client = client
        self._size: int = descriptor.get("size", 0)
        self._path = f"{repository}/blobs/{descriptor['digest']}"
        self._label = label
        self._at = 0
        self._breaks = 0
        self._response: Any = None
        self._window = (time.monotonic(), 0)

    def close(self) -> None:
        """Close the connection."""
        if self._response is not None:
            self._response.close()
            self._response = None

    def read(self, size: int = -1) -> bytes:
        """Return available bytes, at most `size`; none at the end."""
        left = self._size - self._at
        wanted = left if size < 0 else min(size, left)
        part = self._next(wanted) if wanted else b""
        self._at += len(part)
        if self._at == self._size:
            self.close()
        return part

    def _next(self, wanted: int) -> bytes:
        while True:
            try:
                if self._response is None:
                    self._open()
                # read() would block until all of `wanted` is there, and a slow sender would go
                # unnoticed.
                part: bytes = self._response.raw.read1(wanted)
            except BROKEN as error:
                part, reason = b"", type(error).__name__
            except BrokenConnectionError as error:
                part, reason = b"", error.message
            else:
                reason = "it ended early"
            if part:
                self._refuse_slow(len(part))
                return part
            self.close()
            self._breaks += 1
            if self._breaks >= TRIES:
                raise RegistryError(
                    f"{self._label} broke off at byte {self._at} of {self._size}: {reason}",
                    remedy="try again",
                )
            self._client.pause(BrokenConnectionError(""), self._breaks)

    def _open(self) -> None:
        headers = {"Range": f"bytes={self._at}-"} if self._at else {}
        self._response = self._client.request("GET", self._path, ok={200, 206}, headers=headers)
        said = self._response.headers
        skipped = 0
        if self._response.status_code == 206:
            if not said.get("Content-Range", "").startswith(f"bytes {self._at}-"):
                raise RegistryError(f"{self._label}: the registry sent another range")
        else:
            # The registry ignored Range and starts again: skip what was already read.
            skipped = self._at
        length = said.get("Content-Length", "")
        if length.isdigit() and int(length) != self._size - self._at + skipped:
            raise damaged(f"{self._label} has {length} bytes, its descriptor says {self._size}")
        while skipped:
            part = self._response.raw.read1(min(skipped, _PART))
            if not part:
                raise BrokenConnectionError("it ended early")
            skipped -= len(part)

    def _refuse_slow(self, count: int) -> None:
        since, size = self._window
        now, size = time.monotonic(), size + count
        if now - since < _SLOW_SECONDS:
            self._window = (since, size)
            return
        if size < _SLOW_BYTES:
            raise RegistryError(
                f"{self._label} came with {size} bytes in {_SLOW_SECONDS} s", remedy="try again"
            )
        self._window = (now, 0)
