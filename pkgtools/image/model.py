"""What an image is, wherever it lies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

import msgspec

from pkgtools.image.layer import damaged, digest_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pkgtools.image.layer import Layer, Member
    from pkgtools.image.manifest import BaseImage
    from pkgtools.image.package import FoundPackage, PackageQuery


_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class _RootFs(msgspec.Struct):
    diff_ids: list[str]


class _Runtime(msgspec.Struct):
    Labels: dict[str, str] | None = None
    Env: list[str] | None = None


class _ConfigFacts(msgspec.Struct):
    """What is read of a configuration."""

    rootfs: _RootFs
    config: _Runtime | None = None
    history: list[dict[str, Any]] | None = None
    created: str | None = None


@dataclass(frozen=True)
class Config:
    """An image's configuration (OCI image specification, "Image Configuration")."""

    raw: bytes

    @property
    def digest(self) -> str:
        """Its digest."""
        return digest_of(self.raw)

    @property
    def facts(self) -> dict[str, Any]:
        """Its content.

        Raises:
            MalformedError: it is not what the specification says.

        """
        try:
            msgspec.json.decode(self.raw, type=_ConfigFacts)
            facts = json.loads(self.raw)
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            raise damaged(f"the image's configuration cannot be read: {error}") from None
        runtime = facts.get("config") or {}
        return {**facts, "config": {**runtime, "Labels": runtime.get("Labels") or {}}}

    def refuse_other_layers(self, count: int) -> None:
        """Raise unless the image has as many layers as its configuration names.

        Raises:
            MalformedError: it has not.

        """
        named = len(self.facts["rootfs"]["diff_ids"])
        if named != count:
            raise damaged(f"the image has {count} layers, its configuration names {named}")

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        labels: dict[str, str] = self.facts["config"]["Labels"]
        return labels

    @property
    def env(self) -> list[str]:
        """Its environment, ``NAME=VALUE`` each."""
        return list(self.facts["config"].get("Env") or [])

    @property
    def created(self) -> datetime:
        """When the image was made, as it says; the epoch where it does not (some say year 1)."""
        try:
            when = datetime.fromisoformat(self.facts.get("created") or "")
            utc = when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
        except (ValueError, OverflowError):  # the last, of a time in the year 9999 or 1
            return _EPOCH
        return max(utc, _EPOCH)

    def extended(
        self, layer: Layer, labels: Mapping[str, str], created_by: str, when: datetime
    ) -> Self:
        """Return the configuration of an image with one layer more."""
        facts = self.facts
        created = when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        step = {"created": created, "created_by": created_by}
        runtime = {**facts["config"], "Labels": {**facts["config"]["Labels"], **labels}}
        rootfs = {**facts["rootfs"], "diff_ids": [*facts["rootfs"]["diff_ids"], layer.diff_id]}
        extended = {
            **facts,
            "created": created,
            "config": runtime,
            "rootfs": rootfs,
            "history": [*(facts.get("history") or []), step],
        }
        return type(self)(json.dumps(extended, sort_keys=True, separators=(",", ":")).encode())


@dataclass(frozen=True)
class NewImage:
    """A base with one layer more, ready to be stored."""

    config: Config
    layer: Layer
    annotations: Mapping[str, str]
    """For the manifest, where the image's store keeps one."""


@dataclass(frozen=True)
class Stored:
    """A new image in its store."""

    reference: str
    id: str
    digest: str | None = None
    """As `Image` has them."""


@runtime_checkable
class Image(Protocol):
    """An image that can be read."""

    @property
    def reference(self) -> str:
        """What the user calls it."""
        ...

    @property
    def name(self) -> str | None:
        """What its store calls it, wherever that lies; None where it has no name."""
        ...

    @property
    def config(self) -> Config:
        """Its configuration."""
        ...

    @property
    def id(self) -> str:
        """What its store has it by: on disk, the digest of its configuration."""
        ...

    @property
    def manifest_digest(self) -> str | None:
        """The digest by which a registry has it, where that is known."""
        ...

    @property
    def identity(self) -> tuple[str, ...] | None:
        """All that an answer of `find` follows from, beside the query; None if no digest says it.

        The digest of everything in the image, and where the user says to look.
        """
        ...

    def find(self, query: PackageQuery) -> FoundPackage:
        """Return where the package lies in the image.

        Args:
            query: the package, and which of its files will be read.

        Raises:
            UsageError: it is not there, or in several places.
            MalformedError: the image is damaged, or leads out of itself.
            TreeError: what lies there is no package's.
            EngineError: the engine failed.

        """
        ...

    def read(self, paths: Collection[str]) -> dict[str, Member]:
        """Return what is at each path that there is; a symbolic link is not followed."""
        ...

    def default_name(self, suffix: str) -> str:
        """Return a name for an image built on this one.

        Raises:
            UsageError: this one has no name that could be varied.

        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class ImageStore(Protocol):
    """Where an image that is built on another can be stored."""

    def refuse_name(self, name: str) -> None:
        """Raise where a name cannot be that of an image built on the base.

        Raises:
            UsageError: it is the base's own, or not a name for this store.

        """
        ...

    def store(self, new: NewImage, name: str) -> Stored:
        """Store an image that is built on the base.

        Raises:
            UsageError: as `refuse_name`.
            TreeError: the store cannot be written.

        """
        ...


class Portable(Protocol):
    """An image that can be the base of one in another store."""

    @property
    def base(self) -> BaseImage:
        """Its manifest and its layers."""
        ...


@runtime_checkable
class Pushable(Protocol):
    """An image in a store that a registry can be given it from."""

    def push(self, name: str) -> str:
        """Push an image by its name; return the digest that the registry has it by.

        Raises:
            EngineError: the registry or the engine refuses.

        """
        ...


@runtime_checkable
class Runnable(Image, Protocol):
    """An image whose programs can be run."""

    def run(self, arguments: Sequence[str], files: bytes = b"") -> Iterator[str]:
        """Run the image's Python in a container; yield what it prints, line by line.

        Args:
            arguments: of the interpreter.
            files: a tar archive that is unpacked at the container's root first.

        Raises:
            UsageError: the image has no Python.
            EngineError: the program failed, or the engine.

        """
        ...
