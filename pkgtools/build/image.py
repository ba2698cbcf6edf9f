"""A patched image: the base plus one layer with the series.

The build extracts the relevant files from the base, patches them as it patches any tree, and
writes the changes as the layer. RECORD, the receipt, the removal of an older series and stale
bytecode therefore follow the same rules as in an installed tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pkgtools.build.bytecode import compiler
from pkgtools.build.clock import source_date
from pkgtools.errors import PkgtoolsError, UsageError
from pkgtools.image.destination import index_store_of, store_of
from pkgtools.image.known import known_package
from pkgtools.image.labels import OCI_BASE_NAME, labels_of
from pkgtools.image.layer import write_layer
from pkgtools.image.model import NewImage, Stored
from pkgtools.image.names import default_name
from pkgtools.image.tree import extracted, query_of
from pkgtools.tree.apply import apply_target

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pkgtools.catalog import Catalog, Target
    from pkgtools.image.model import Image
    from pkgtools.image.registry.image import RegistryIndex
    from pkgtools.tree.apply import TreeChange
    from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class BuiltImage:
    """An image that was built."""

    reference: str
    id: str
    """What its store has it by: on disk, the digest of its configuration."""
    digest: str | None
    """The manifest's, by which a layout has it, and the registry that it was pushed to."""
    target: str
    revisions: tuple[str, ...]
    base: str
    layer: str
    """The new layer's digest."""
    layer_bytes: int
    written: tuple[str, ...]
    """The paths in the image that the layer has, and, next, those that it removes."""
    removed: tuple[str, ...]
    replaced: str | None
    """The digest of an older series that the base had."""
    version: str
    """The patched package's; without a .dist-info, the revision."""
    base_digest: str
    """The base's manifest digest, or where that is not known its id."""
    created: str
    """The time in its configuration, as ISO 8601."""
    attestations: tuple[str, ...] = ()
    """The files of ``--attest``."""


def build_image(
    catalog: Catalog,
    target: Target,
    image: Image,
    reporter: Reporter,
    name: str | None = None,
) -> BuiltImage:
    """Store `image` plus one layer with the series of `target`.

    The same target and base give the same bytes, with the same pkgtools, Python and zlib.

    Args:
        catalog: used to find the nearest revision of a refused base.
        target: whose series.
        image: the base.
        reporter: receives progress.
        name: the new image's name; default: the base's, the target and the series' digest.

    Raises:
        PkgtoolsError: a refusal, as `apply_target` raises it.
        UsageError: the base is already patched, or `name` is the base's name.
        TreeError: the image cannot be stored.

    """
    name = name or image.default_name(_suffix(target))
    store = store_of(image, name)
    store.refuse_name(name)
    patched = _patched(catalog, target, image, reporter, source_date(image.config.created))
    with reporter.task(f"storing {name}"):
        stored = store.store(patched.image, name)
    return patched.built(target, image, stored)


@dataclass(frozen=True)
class BuiltIndex:
    """An image that was built for several platforms."""

    reference: str
    digest: str
    """The index', by which its registry or layout has it."""
    target: str
    base: str
    dropped: tuple[str, ...]
    """Digests of the base's attestations (provenance, SBOM), which are not true of what was
    built."""
    platforms: Mapping[str, BuiltImage]
    """What was built for each, by ``os/architecture[/variant]``."""


def build_index(
    catalog: Catalog,
    target: Target,
    index: RegistryIndex,
    reporter: Reporter,
    name: str | None = None,
) -> BuiltIndex:
    """Store a multi-platform image plus one layer with the series of `target` per platform.

    All layers have the time of the newest platform, so that platforms with the same package
    files share a layer.

    Raises:
        PkgtoolsError: as `build_image`, for any platform; then nothing is stored.

    """
    name = name or default_name(index.at, _suffix(target))
    store = index_store_of(index, name)
    store.refuse_name(name)
    when = source_date(max(image.config.created for image in index.images.values()))
    patched = {}
    for platform, image in index.images.items():
        try:
            patched[platform] = _patched(catalog, target, image, reporter, when)
        except PkgtoolsError as error:
            error.message = f"{platform}: {error.message}"
            raise
    with reporter.task(f"storing {name}"):
        news = [each.image for each in patched.values()]
        stored = store.store_index(index.document, index.media_type, news, name)
    platforms = {
        platform: each.built(target, index.images[platform], Stored(name, each.image.config.digest))
        for platform, each in patched.items()
    }
    return BuiltIndex(
        reference=name,
        digest=stored.id,
        target=target.name,
        base=index.reference,
        dropped=index.dropped,
        platforms=platforms,
    )


@dataclass(frozen=True)
class _PatchedImage:
    """A built image before it is stored."""

    image: NewImage
    outcome: TreeChange
    version: str
    created: datetime
    written: tuple[str, ...]
    removed: tuple[str, ...]

    def built(self, target: Target, base: Image, stored: Stored) -> BuiltImage:
        """Return the public result."""
        return BuiltImage(
            reference=stored.reference,
            id=stored.id,
            digest=stored.digest,
            target=target.name,
            revisions=self.outcome.revisions,
            base=base.reference,
            layer=self.image.layer.diff_id,
            layer_bytes=len(self.image.layer.data),
            written=self.written,
            removed=self.removed,
            replaced=self.outcome.replaced,
            version=self.version,
            base_digest=base.manifest_digest or base.id,
            created=self.created.isoformat(),
        )


def _patched(
    catalog: Catalog, target: Target, image: Image, reporter: Reporter, when: datetime
) -> _PatchedImage:
    """Return an image plus one layer with the series of a target."""
    with reporter.task(f"patching {image.reference}"):
        query = query_of(catalog, target.upstream)
        package = known_package(image, query)
        with compiler() as compile_again, extracted(image, query, package) as part:
            outcome = apply_target(catalog, target, part.tree, reporter)
            if not outcome.changed:
                base = image.config.labels.get(OCI_BASE_NAME)
                raise UsageError(
                    f"{part.tree.label} is patched with {target.name} already",
                    remedy="give the image that it was built on" + (f": {base}" if base else ""),
                )
            info = part.tree.dist_info
            version = info.stem.rpartition("-")[2] if info else outcome.revisions[0]
            compile_again(part, outcome.changed)
            written, removed = part.changes(int(when.timestamp()))
        layer = write_layer(written, removed)
    labels = labels_of(target, outcome.revisions, image, part.package.folder)
    step = f"pkgtools build image --target {target.name}"
    config = image.config.extended(layer, labels, step, when)
    paths = tuple(member.path for member in written)
    return _PatchedImage(
        image=NewImage(config, layer, labels),
        outcome=outcome,
        version=version,
        created=when,
        written=paths,
        removed=tuple(removed),
    )


def _suffix(target: Target) -> str:
    """Return the suffix of the new image's name."""
    return f"{target.name}-{target.series.short_digest}"
