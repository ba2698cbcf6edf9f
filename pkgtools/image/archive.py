"""Archives as ``docker save`` writes them: a tar of layers, and a ``manifest.json`` about them."""

import contextlib
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

from pkgtools.errors import MalformedError, PkgtoolsError, UsageError
from pkgtools.image.layer import content, damaged, entries, open_tar, readable, verified
from pkgtools.image.manifest import LAYERS, OCI_MANIFEST, BaseImage, oci_base
from pkgtools.image.merged import StoredLayer
from pkgtools.image.model import Config, ImageStore, NewImage, Stored, base_is_kept
from pkgtools.image.names import ARCHIVE, NAME, with_tag
from pkgtools.image.stored import LayeredImage
from pkgtools.image.streams import Forward, compression_of, decompressed
from pkgtools.util.files import in_the_way, open_regular, replacing

_MANIFEST: Final = "manifest.json"
_MOST: Final = 20_000
"""Members of an archive: an image has at most 127 layers, with up to four members each."""

_DAMAGE: Final = (
    *(ValueError, OverflowError, KeyError, RecursionError),
    *(msgspec.DecodeError, tarfile.TarError),
)


class _Entry(msgspec.Struct):
    """What is read of an entry of manifest.json: names of members."""

    Config: str
    Layers: list[str]
    RepoTags: list[str] | None = None


class ArchiveImage(LayeredImage):
    """One image of an archive."""

    def __init__(self, path: Path, name: str | None = None, tree: str | None = None) -> None:
        self._path, self.tree = path, tree
        self.reference = f"{ARCHIVE}{path}" + (f":{name}" if name else "")
        self._archive = _open(path)
        try:
            _read_headers(self._archive)  # tarfile would read them without a bound
            raw = self._read(_MANIFEST)
            self._entry = self._named(name, msgspec.json.decode(raw, type=list[_Entry]))
            self.config = Config(self._read(self._entry.Config))
            self.config.refuse_other_layers(len(self._entry.Layers))
            self.id = self.config.digest
            diff_ids = self.config.facts["rootfs"]["diff_ids"]
            self.layers = list(map(self._layer, self._entry.Layers, diff_ids))
        except (PkgtoolsError, *_DAMAGE) as error:
            self._archive.close()
            if isinstance(error, PkgtoolsError):
                raise
            raise MalformedError(
                f"{path} is not an archive of `docker save`: {error}",
                remedy="save it again: docker save -o FILE IMAGE",
            ) from None
        self.name = with_tag(name) if name else next(iter(self._entry.RepoTags or []), None)

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def default_name(self, suffix: str) -> str:
        """Return a file in the same folder, and the image's name with a suffixed tag."""
        place = f"{ARCHIVE}{self._path.with_name(f'{self._path.stem}-{suffix}.tar')}"
        return f"{place}:{with_tag(self.name)}-{suffix}" if self.name else place

    def is_at(self, path: Path) -> bool:
        """Return whether a path is this archive's."""
        return path.exists() and path.samefile(self._path)

    def parts(self) -> Iterator[tuple[str, StoredLayer]]:
        """Yield each layer by its name, with its bytes unchanged, and their size alone."""
        for name in self._entry.Layers:
            opened = partial(self._opened, name)
            with opened() as file:
                yield name, StoredLayer(name, opened, {"size": file.seek(0, io.SEEK_END)})

    @cached_property
    def base(self) -> BaseImage:  # type: ignore[override] # computed once needed
        """Its layers with their digests, for which each is read once."""
        return oci_base(self.config, list(map(self._described, self._entry.Layers)))

    def _named(self, name: str | None, every: list[_Entry]) -> _Entry:
        """Return the entry of a name, or the only entry if no name is given."""
        # A digest in a name is a manifest's, and an archive has no OCI manifest to verify.
        tag = name and (name if "@" in name else with_tag(name))
        found = [e for e in every if tag is None or tag in (e.RepoTags or [])]
        if len(found) != 1:
            names = ", ".join(sorted(tag for entry in every for tag in entry.RepoTags or []))
            what = f"no image {name}" if name and not found else f"{len(found)} images"
            raise UsageError(
                f"{self._path} has {what}",
                remedy=f"give {ARCHIVE}{self._path}:NAME, with one of: {names}"
                if names
                else "save one image: docker save -o FILE IMAGE",
            )
        return found[0]

    def _layer(self, name: str, diff_id: str) -> StoredLayer:
        """Return a layer that is checked against its digest in the configuration."""
        label = f"{self.reference} {name}"
        return StoredLayer(label, partial(self._verified, name, diff_id, label), digest=diff_id)

    @contextlib.contextmanager
    def _verified(self, name: str, diff_id: str, label: str) -> Iterator[IO[bytes]]:
        with (
            self._opened(name) as file,
            readable(label),
            verified(decompressed(file), diff_id, label) as layer,
        ):
            yield layer

    def _described(self, name: str) -> StoredLayer:
        """Return a layer with its bytes unchanged and their descriptor."""
        with self._opened(name) as file:
            media_type = f"{LAYERS[OCI_MANIFEST]}{compression_of(file.read(4))}"
            file.seek(0)
            digest = hashlib.file_digest(cast("Any", file), "sha256").hexdigest()
            said = {"mediaType": media_type, "digest": f"sha256:{digest}", "size": file.tell()}
        return StoredLayer(f"{self.reference} {name}", partial(self._opened, name), said)

    def _opened(self, name: str) -> IO[bytes]:
        try:  # older engines write a layer that two images share as a link to the first
            file = self._archive.extractfile(name)
        except (KeyError, RecursionError, tarfile.TarError):
            file = None
        if file is None:
            raise damaged(f"{self.reference}: {name} is not a layer")
        return file

    def _read(self, name: str) -> bytes:
        return content(self._archive, self._archive.getmember(name), self.reference)


class ArchiveStore(ImageStore):
    """A new archive."""

    def __init__(self, image: LayeredImage) -> None:
        """Take the base, which can be in another store."""
        self._image = image

    def refuse_name(self, name: str) -> None:
        """Reject a name if no archive can be written there; see `ImageStore.refuse_name`."""
        path, tag = _place(name)
        if in_the_way(path) or not (tag is None or NAME.fullmatch(tag)):
            raise UsageError(
                f"invalid image name {name!r}",
                remedy=f"give a file with --tag {ARCHIVE}FILE[:NAME]",
            )
        if isinstance(self._image, ArchiveImage) and self._image.is_at(path):
            raise base_is_kept(path)

    def store(self, new: NewImage, name: str) -> Stored:
        """Write an archive with the base's layers as they are, and the new layer."""
        self.refuse_name(name)
        path, tag = _place(name)
        tags = [with_tag(tag)] if tag else []
        with replacing(path, "name another file with --tag") as out:
            write_archive(self._image, new, tags, out)
        return Stored(new.config.digest)


def write_archive(image: LayeredImage, new: NewImage, tags: list[str], out: IO[bytes]) -> None:
    """Write the archive of an image built on another one, with its names."""
    if isinstance(image, ArchiveImage):
        parts = list(image.parts())
    else:
        names = map(layer_name, image.config.facts["rootfs"]["diff_ids"])
        parts = list(zip(names, image.base.layers, strict=True))
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, layer in dict(parts).items():
            info = tarfile.TarInfo(name)
            info.size = layer.descriptor["size"]
            with layer.open() as source:
                archive.addfile(info, cast("IO[bytes]", Forward(source)))
        add_image(archive, new, [name for name, _ in parts], tags)


def add_image(
    archive: tarfile.TarFile, new: NewImage, layers: Sequence[str], tags: Sequence[str]
) -> None:
    """Add an image to an archive: its configuration, its new layer, and the manifest.

    The archive has the base's layers, whose names are given, or is for an engine that has them.
    """
    config = f"{new.config.digest.removeprefix('sha256:')}.json"
    layer = layer_name(new.layer.diff_id)
    entry = {"Config": config, "RepoTags": tags, "Layers": [*layers, layer]}
    add_file(archive, config, new.config.raw)
    add_file(archive, layer, new.layer.data)
    add_file(archive, _MANIFEST, json.dumps([entry]).encode())


def layer_name(diff_id: str) -> str:
    """Return the name of a layer in an archive."""
    return f"{diff_id.removeprefix('sha256:')}.tar"


def add_file(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a world-readable file without the time, host or user of the build."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _read_headers(archive: tarfile.TarFile) -> None:
    """Read the headers of all members, which tarfile keeps in memory."""
    for number, _ in enumerate(entries(archive)):
        if number >= _MOST:
            raise tarfile.ReadError(f"it has more than {_MOST} members")


def _open(path: Path) -> tarfile.TarFile:
    try:
        open_regular(path).close()  # tarfile would wait for the writer of a FIFO
        return open_tar(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            remedy="docker-archive: takes a file of docker save",
        ) from None
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{path} is not a tar archive: {error}",
            remedy=f"{ARCHIVE} takes a file of docker save, not compressed",
        ) from None


def _place(name: str) -> tuple[Path, str | None]:
    """Return the file of an archive's name, and the image's own name in it."""
    path, _, tag = name.removeprefix(ARCHIVE).partition(":")
    return Path(path), tag or None
