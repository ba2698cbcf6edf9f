"""A patched image: the base plus one layer with the series.

The build extracts the relevant files from the base, patches them as it patches any tree, and
writes the changes as the layer. RECORD, the receipt, the removal of an older series and stale
bytecode therefore follow the same rules as in an installed tree.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pkgtools.build.bytecode import compiler
from pkgtools.build.clock import source_date
from pkgtools.catalog import Catalog, Target
from pkgtools.errors import PkgtoolsError, UsageError
from pkgtools.image.facts import known_package
from pkgtools.image.labels import OCI_BASE_NAME, labels_of, merged_labels
from pkgtools.image.layer import Member, write_layer
from pkgtools.image.model import Image, NewImage, Runnable
from pkgtools.image.reference import index_store_of, store_of
from pkgtools.image.stored import ImageIndex, LayeredImage
from pkgtools.image.tree import ExtractedPackage, extracted, query_of
from pkgtools.tree.apply import TreeChange, apply_to
from pkgtools.tree.draft import TreeDraft
from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class BuiltTarget:
    """One target of an image that has several."""

    target: str
    revisions: tuple[str, ...]
    replaced: str | None
    version: str


@dataclass(frozen=True)
class BuiltImage:
    """An image that was built; of several targets, the first one has its fields here."""

    reference: str
    id: str
    """The store's identifier; on disk, the digest of the configuration."""
    digest: str | None
    """The manifest's digest, in a layout or the registry that it was pushed to."""
    target: str
    revisions: tuple[str, ...]
    base: str
    layer: str
    """The new layer's digest."""
    layer_bytes: int
    written: tuple[str, ...]
    """The paths in the image that the layer writes; `removed` has those that it removes."""
    removed: tuple[str, ...]
    replaced: str | None
    """The digest of an older series that the base had."""
    version: str
    """The patched package's version; without a .dist-info, the revision."""
    base_digest: str
    """The base's manifest digest, or its id if the digest is unknown."""
    created: str
    """The time in its configuration, as ISO 8601."""
    also: tuple[BuiltTarget, ...] = ()
    """The other targets."""
    attestations: tuple[str, ...] = ()
    """The files of ``--attest``."""
    by_table: tuple[str, ...] = ()
    """The digests of the base's layers that were read by their table of contents."""

    @property
    def targets(self) -> tuple[BuiltTarget, ...]:
        """All targets."""
        first = BuiltTarget(self.target, self.revisions, self.replaced, self.version)
        return (first, *self.also)


def build_image(
    catalog: Catalog,
    targets: Sequence[Target],
    image: Runnable | LayeredImage,
    reporter: Reporter,
    name: str | None = None,
) -> BuiltImage:
    """Store `image` plus one layer with the series of all `targets`.

    The same targets and base give the same bytes, with the same pkgtools, Python and zlib. The
    default name is that of the base, with each target and its series' digest.

    Raises:
        PkgtoolsError: a refusal, as `apply_to` raises it.
        UsageError: the base is already patched, or `name` is the base's name.
        TreeError: the image cannot be stored.
    """
    name = name or image.default_name(_suffix(targets))
    store = store_of(image, name)
    store.refuse_name(name)
    when = source_date(image.config.created)
    new, built = _patched(catalog, targets, image, reporter, name=name, when=when)
    with reporter.task(f"storing {name}"):
        stored = store.store(new, name)
    return replace(built, id=stored.id, digest=stored.digest)


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
    targets: Sequence[Target],
    index: ImageIndex,
    reporter: Reporter,
    name: str | None = None,
) -> BuiltIndex:
    """Store a multi-platform image plus one layer with the series of `targets` per platform.

    All layers have the time of the newest platform, so that platforms with the same package
    files share a layer.

    Raises:
        PkgtoolsError: as `build_image`, for any platform; no image is stored.
    """
    name = name or index.default_name(_suffix(targets))
    store = index_store_of(index, name)
    store.refuse_name(name)
    when = source_date(max(image.config.created for image in index.images.values()))
    patched = {}
    for platform, image in index.images.items():
        try:
            patched[platform] = _patched(catalog, targets, image, reporter, name=name, when=when)
        except PkgtoolsError as error:
            error.message = f"{platform}: {error.message}"
            raise
    with reporter.task(f"storing {name}"):
        stored = store.store_index(index, [new for new, _ in patched.values()], name)
    platforms = {
        platform: replace(built, digest=digest)
        for (platform, (_, built)), digest in zip(patched.items(), stored.manifests, strict=True)
    }
    return BuiltIndex(
        reference=name,
        digest=stored.id,
        target=targets[0].name,
        base=index.reference,
        dropped=index.dropped,
        platforms=platforms,
    )


def _patched(  # noqa: PLR0913 - keywords
    catalog: Catalog,
    targets: Sequence[Target],
    image: Image,
    reporter: Reporter,
    *,
    name: str,
    when: datetime,
) -> tuple[NewImage, BuiltImage]:
    """Return an image plus one layer with the series of its targets, before it is stored."""
    with reporter.task(f"patching {image.reference}"), contextlib.ExitStack() as stack:
        places, outcomes = _apply(catalog, targets, image, stack)
        parts = {part.tree.upstream.name: part for part in places}.values()
        written, removed = _changes(parts, int(when.timestamp()))
    layer = write_layer(written, removed)
    built = []
    labels: dict[str, str] = {}
    for target, part, outcome in zip(targets, places, outcomes, strict=True):
        info = part.tree.dist_info
        version = info.stem.rpartition("-")[2] if info else outcome.revisions[0]
        built.append(BuiltTarget(target.name, outcome.revisions, outcome.replaced, version))
        own = labels_of(target, outcome.revisions, image, part.tree.package.folder)
        labels = merged_labels(image.config.labels, labels, own)
    step = "pkgtools build image" + "".join(f" --target {target.name}" for target in targets)
    new = NewImage(image.config.extended(layer, labels, step, when), layer, labels)
    first, *others = built
    return new, BuiltImage(
        reference=name,
        id=new.config.digest,
        digest=None,
        target=first.target,
        revisions=first.revisions,
        base=image.reference,
        layer=layer.diff_id,
        layer_bytes=len(layer.data),
        written=tuple(member.path for member in written),
        removed=tuple(removed),
        replaced=first.replaced,
        version=first.version,
        base_digest=image.manifest_digest or image.id,
        created=when.isoformat(),
        also=tuple(others),
        by_table=tuple(sorted({d for part in parts for d in part.tree.package.by_table})),
    )


def _apply(
    catalog: Catalog,
    targets: Sequence[Target],
    image: Image,
    stack: contextlib.ExitStack,
) -> tuple[list[ExtractedPackage], list[TreeChange]]:
    """Apply each target to its package, and compile what changed.

    The packages are extracted until the stack closes.
    """
    parts, compilers, drafts = {}, {}, {}
    for upstream in {target.upstream.name: target.upstream for target in targets}.values():
        query = query_of(catalog, upstream)
        part = stack.enter_context(extracted(image, query, known_package(image, query)))
        parts[upstream.name] = part
        compilers[upstream.name] = stack.enter_context(compiler(part))
        drafts[upstream.name] = TreeDraft(part.tree)
    places = [parts[target.upstream.name] for target in targets]
    outcomes = [apply_to(catalog, each, drafts[each.upstream.name]) for each in targets]
    changed: dict[str, set[str]] = {}
    for target, outcome in zip(targets, outcomes, strict=True):
        changed.setdefault(target.upstream.name, set()).update(outcome.changed)
    if not any(changed.values()):
        base = image.config.labels.get(OCI_BASE_NAME)
        held: dict[str, list[str]] = {}
        for target, part in zip(targets, places, strict=True):
            held.setdefault(part.tree.label, []).append(target.name)
        told = (f"{tree} is patched with {' and '.join(held[tree])} already" for tree in held)
        raise UsageError(
            ", ".join(told),
            remedy="give the image that it was built on" + (f": {base}" if base else ""),
        )
    for key, part in parts.items():
        part.put(drafts[key].writes())
        compilers[key](changed[key])
    return places, outcomes


def _changes(parts: Iterable[ExtractedPackage], mtime: int) -> tuple[list[Member], list[str]]:
    """Return the changes of the packages' files, for one layer.

    Raises:
        UsageError: packages of one checkout share a receipt, and each has its own here.
    """
    written: dict[str, Member] = {}
    gone: set[str] = set()
    for part in parts:
        members, removed = part.changes(mtime)
        for member in members:
            if written.setdefault(member.path, member) != member:
                raise UsageError(
                    f"{part.tree.label}: the packages share /{member.path}",
                    remedy="build an image of the first target, and one of the other on that",
                )
        gone.update(removed)
    return [written[path] for path in sorted(written)], sorted(gone)


def _suffix(targets: Sequence[Target]) -> str:
    """Return the suffix of the new image's name."""
    return "-".join(f"{target.name}-{target.series.short_digest}" for target in targets)
