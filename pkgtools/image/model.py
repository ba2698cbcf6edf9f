"""Interfaces of images and their stores."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Protocol, Self

import msgspec

from pkgtools.errors import UsageError
from pkgtools.image.layer import Layer, Member, damaged, digest_of
from pkgtools.image.manifest import parse, to_json
from pkgtools.image.package import FoundPackage, PackageQuery

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class _RootFs(msgspec.Struct):
    diff_ids: list[str]


class _Runtime(msgspec.Struct):
    Labels: dict[str, str] | None = None
    Env: list[str] | None = None


class _ConfigFacts(msgspec.Struct):
    """The parts of a configuration that are read."""

    rootfs: _RootFs
    config: _Runtime | None = None
    history: list[dict[str, Any]] | None = None
    created: str | None = None


@dataclass(frozen=True)
class Config:
    """An image's configuration.

    https://github.com/opencontainers/image-spec/blob/main/config.md
    """

    raw: bytes

    @property
    def digest(self) -> str:
        """The digest of its bytes."""
        return digest_of(self.raw)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Its content.

        Raises:
            MalformedError: it violates the specification.
        """
        facts = parse(self.raw, _ConfigFacts, "the image's configuration")
        runtime = facts.get("config") or {}
        return {**facts, "config": {**runtime, "Labels": runtime.get("Labels") or {}}}

    def refuse_other_layers(self, count: int) -> None:
        """Reject an image whose number of layers is not that of its configuration.

        Raises:
            MalformedError: the numbers differ.
        """
        named = len(self.facts["rootfs"]["diff_ids"])
        if named != count:
            raise damaged(f"the image has {count} layers, its configuration names {named}")

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return dict(self.facts["config"]["Labels"])

    @property
    def env(self) -> list[str]:
        """Its environment, ``NAME=VALUE`` each."""
        return list(self.facts["config"].get("Env") or [])

    @property
    def created(self) -> datetime:
        """The time at which the image was made; the epoch if it has none or one before (year 1)."""
        try:
            when = datetime.fromisoformat(self.facts.get("created") or "")
            utc = when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
        except (ValueError, OverflowError):  # OverflowError: in the years 1 and 9999
            return _EPOCH
        return max(utc, _EPOCH)

    def extended(
        self, layer: Layer, labels: Mapping[str, str], created_by: str, when: datetime
    ) -> Self:
        """Return the configuration of an image with one more layer."""
        facts = self.facts
        created = when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        step = {"created": created, "created_by": created_by}
        runtime = {**facts["config"], "Labels": {**facts["config"]["Labels"], **labels}}
        rootfs = {**facts["rootfs"], "diff_ids": [*facts["rootfs"]["diff_ids"], layer.diff_id]}
        history = [*(facts.get("history") or []), step]
        made = {"created": created, "config": runtime, "rootfs": rootfs, "history": history}
        return type(self)(to_json({**facts, **made}))


@dataclass(frozen=True)
class NewImage:
    """A base with one more layer, ready to be stored."""

    config: Config
    layer: Layer
    annotations: Mapping[str, str]
    """For the manifest, in stores that have one."""


@dataclass(frozen=True)
class Stored:
    """What a new image is in its store; see `Image` for the fields."""

    id: str
    digest: str | None = None
    manifests: tuple[str, ...] = ()
    """Of an index: the digests of its images' manifests."""


class Image(ABC):
    """An image that can be read."""

    reference: str
    """The user's name for it."""
    name: str | None
    """Its name in its store, or None."""
    config: Config
    id: str
    """The store's identifier; outside an engine, the digest of the configuration."""
    manifest_digest: str | None = None
    """The digest of its manifest, if known."""
    identity: tuple[str, ...] | None = None
    """Cache key for `find`, with the folder that the user names; None if no digest decides it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close open files and connections."""
        self.close()

    def close(self) -> None:  # noqa: B027 - few have something to close
        """Close open files and connections; the default is to do nothing."""

    @abstractmethod
    def find(self, query: PackageQuery) -> FoundPackage:
        """Return the location of the package in the image.

        Raises:
            UsageError: it is not there, or in several places.
            MalformedError: the image is damaged, or leads out of itself.
            TreeError: a file's parent is not a directory.
            EngineError: the engine failed.
        """

    @abstractmethod
    def read(self, paths: Collection[str]) -> dict[str, Member]:
        """Return the member at each existing path; symbolic links are not followed."""

    @abstractmethod
    def default_name(self, suffix: str) -> str:
        """Return a name for an image built on this one.

        Raises:
            UsageError: this one has no tag to which a suffix could be added.
        """


class KnownFacts(Protocol):
    """A place whose facts the user trusts."""

    def package(self, image: Image, key: str, query: PackageQuery) -> FoundPackage | None:
        """Return the package of a key in an image; None if the place has no facts of it.

        Raises:
            PkgtoolsError: the place cannot be read, or its facts are damaged.
        """
        ...


class ImageStore(ABC):
    """A place where a new image can be stored."""

    @abstractmethod
    def refuse_name(self, name: str) -> None:
        """Reject an invalid name for the new image.

        Raises:
            UsageError: it is a name of the base, or not a name in this store.
        """

    @abstractmethod
    def store(self, new: NewImage, name: str) -> Stored:
        """Store the new image.

        Raises:
            UsageError: as `refuse_name`.
            TreeError: the store cannot be written.
            RegistryError: the registry refuses it.
        """


def base_is_kept(name: object) -> UsageError:
    """Return the error for the base's own name as that of a new image."""
    return UsageError(
        f"{name} is a name of the base, which is never overwritten",
        remedy="give another name with --tag",
    )


class Runnable(Image, ImageStore):
    """An image in an engine, which runs it, stores images built on it, and pushes them."""

    @abstractmethod
    def push(self, name: str) -> str:
        """Push an image; return the digest of its manifest in the registry.

        Raises:
            EngineError: the registry or the engine refuses.
        """

    @abstractmethod
    def run(self, arguments: Sequence[str], files: bytes = b"") -> Iterator[str]:
        """Run the image's Python in a container; yield what it prints, line by line.

        The tar archive `files` is unpacked at the container's root first.

        Raises:
            UsageError: the image does not contain the interpreter.
            EngineError: the program or the engine failed; with the end of its output.
        """
