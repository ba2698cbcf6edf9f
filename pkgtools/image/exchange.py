"""Export facts of images to a file or a repository, and start builds from them.

The user names the place, and thereby trusts everybody who can write to it. Whoever can push facts
to a repository can push its tags as well.
"""

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pkgtools.catalog import Catalog, Upstream
from pkgtools.errors import UsageError
from pkgtools.image.facts import LIMIT, decode_facts, encode_facts, facts_key, known_package
from pkgtools.image.inspect import upstream_of
from pkgtools.image.model import Image, KnownFacts
from pkgtools.image.names import REGISTRY
from pkgtools.image.package import FoundPackage, PackageQuery
from pkgtools.image.stored import ImageIndex, LayeredImage
from pkgtools.image.tree import query_of
from pkgtools.util.files import open_regular, replace_file
from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class FactsFile:
    """A file with the facts of one image, or of all its platforms."""

    label: str
    raw: bytes = field(repr=False)

    def package(self, _image: Image, key: str, query: PackageQuery) -> FoundPackage | None:
        """Return the package of a key; see `KnownFacts.package`."""
        return decode_facts(self.raw, key, query, self.label)


def open_facts(place: str) -> AbstractContextManager[KnownFacts]:
    """Open the facts at a place: a repository of a registry, or a file."""
    if place.startswith(REGISTRY):
        from pkgtools.image.registry.referrers import ReferrerFacts  # noqa: PLC0415 - slow

        return contextlib.closing(ReferrerFacts(place))
    try:
        with open_regular(Path(place)) as file:
            return contextlib.nullcontext(FactsFile(place, file.read(LIMIT)))
    except OSError as error:
        raise UsageError(
            f"{place} cannot be read: {error.strerror}",
            remedy=f"write it: pkgtools image facts IMAGE --output {place}",
        ) from None


def trust_facts(opened: Image | ImageIndex, facts: KnownFacts) -> None:
    """Use facts in the place of reading an image, or all its platforms."""
    for image in images_of(opened):
        if not isinstance(image, LayeredImage):
            raise UsageError(
                f"{image.reference} is in an engine: --facts is for images that are read by layers",
                remedy=f"give its registry's name: --base {REGISTRY}HOST/NAME",
            )
        image.facts = facts


@dataclass(frozen=True)
class ExportedFacts:
    """Facts that were written."""

    reference: str
    """The image."""
    place: str
    manifests: tuple[str, ...]
    """The digests of the manifests that the facts describe, one for each platform."""
    referrers: tuple[str, ...] = ()
    """The digests of the artifacts that were pushed to a repository."""


def export_facts(
    catalog: Catalog,
    upstreams: Sequence[Upstream],
    opened: Image | ImageIndex,
    place: str,
    reporter: Reporter,
) -> ExportedFacts:
    """Write the facts of an image, or of all its platforms, to a file or a repository.

    The series of the catalog say which files matter. Without `upstreams`, the image's labels name
    the package. A place of the form ``docker://HOST/NAME`` gets referrers to the image's manifest.
    """
    found = []
    for image in images_of(opened):
        with reporter.task(f"reading {image.reference}"):
            said = upstream_of(catalog, image.config.labels)
            queries = [query_of(catalog, upstream) for upstream in upstreams or [said]]
            found += [_facts_of(image, query) for query in queries]
    manifests = tuple(dict.fromkeys(str(image.manifest_digest) for image, _, _ in found))
    if not place.startswith(REGISTRY):
        try:
            replace_file(Path(place), encode_facts({key: package for _, key, package in found}))
        except (OSError, UnicodeEncodeError) as error:
            raise UsageError(
                f"{place} cannot be written: {error}", remedy="name another file with --output"
            ) from None
        return ExportedFacts(opened.reference, place, manifests)
    from pkgtools.image.registry.referrers import ReferrerFacts  # noqa: PLC0415

    with (
        contextlib.closing(ReferrerFacts(place)) as facts,
        reporter.task(f"pushing facts to {place}"),
    ):
        referrers = tuple(
            facts.attach(image.base.descriptor, key, package) for image, key, package in found
        )
    return ExportedFacts(opened.reference, place, manifests, referrers)


def images_of(opened: Image | ImageIndex) -> list[Image]:
    """Return an image, or those of all its platforms."""
    return [opened] if isinstance(opened, Image) else list(opened.images.values())


def _facts_of(image: Image, query: PackageQuery) -> tuple[LayeredImage, str, FoundPackage]:
    """Return an image and the package in it with its key."""
    if not isinstance(image, LayeredImage) or image.identity is None:
        raise UsageError(
            f"{image.reference} has no manifest that facts could refer to",
            remedy=f"name it in a registry or a layout: {REGISTRY}HOST/NAME, oci:DIR:NAME",
        )
    return image, facts_key(image.identity, query), known_package(image, query)
