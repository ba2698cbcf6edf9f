"""Unsigned attestations beside a build: SBOM, VEX and SLSA provenance.

cosign and sigstore sign these files (``cosign attest --type slsaprovenance1 --predicate``). They
hold no clock, host or user: the time in a VEX document is that of the base, or
SOURCE_DATE_EPOCH.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pkgtools import __version__
from pkgtools.build.clock import source_date, timestamp, wheel_date
from pkgtools.build.image import BuiltImage, BuiltIndex
from pkgtools.build.sbom import TOOL, PatchedPackage, image_sbom, to_json, wheel_sbom
from pkgtools.build.wheel import BuiltWheel
from pkgtools.catalog import Catalog, Target
from pkgtools.patch.headers import headers_of
from pkgtools.source import WheelSource
from pkgtools.tree.verify import verify
from pkgtools.util.files import replacing, sha256


@dataclass(frozen=True)
class Subject:
    """What was built."""

    kind: str
    """``wheel`` or ``image``."""
    name: str
    sha256: str
    purl: str
    base: dict[str, Any]
    """What it was built on, as in-toto's resource descriptor."""
    made_at: datetime


def attest_wheel(
    catalog: Catalog, target: Target, built: BuiltWheel, base: WheelSource, folder: Path
) -> tuple[str, ...]:
    """Verify a wheel that was built, and write its attestations; return their paths."""
    path = Path(built.path)
    with WheelSource(path, target.upstream) as wheel:
        verify(catalog, target, wheel)
    digest = sha256(base.path)
    package = PatchedPackage(
        target=target,
        revisions=built.revisions,
        base_version=base.version,
        version=built.version,
        base_sha256=digest,
    )
    made_at = wheel_date(base)
    subject = Subject(
        kind="wheel",
        name=path.name,
        sha256=built.sha256,
        purl=package.purl,
        base={"uri": package.base_purl, "name": base.path.name, "digest": {"sha256": digest}},
        made_at=source_date(made_at),
    )
    return _write(folder, path.name, package, subject, wheel_sbom(package, path.name, made_at))


def attest_image(targets: Sequence[Target], built: BuiltImage, folder: Path) -> tuple[str, ...]:
    """Write the attestations of an image that was built, of each target; return their paths."""
    digest = built.digest or built.id
    repository = built.reference.rpartition("/")[2].partition(":")[0]
    hexadecimal = digest.removeprefix("sha256:")
    base: dict[str, Any] = {
        "name": built.base,
        "digest": {"sha256": built.base_digest.removeprefix("sha256:")},
    }
    if built.by_table:
        base["annotations"] = {"pkgtools.by_table": built.by_table}
    subject = Subject(
        kind="image",
        name=built.reference,
        sha256=hexadecimal,
        purl=f"pkg:oci/{quote(repository.lower(), safe='')}@{quote(digest, safe='')}",
        base=base,
        made_at=datetime.fromisoformat(built.created),
    )
    written: list[str] = []
    for target, made in zip(targets, built.targets, strict=True):
        package = PatchedPackage(
            target=target, revisions=made.revisions, base_version=made.version, version=made.version
        )
        stem = f"image-{hexadecimal[:12]}" + (f"-{target.name}" if built.also else "")
        sbom = image_sbom(package, built.reference, digest, subject.made_at)
        written += _write(folder, stem, package, subject, sbom)
    return tuple(written)


def attest_index(targets: Sequence[Target], built: BuiltIndex, folder: Path) -> BuiltIndex:
    """Write the attestations of each platform's image; return the index with their paths."""
    images = {
        platform: replace(image, attestations=attest_image(targets, image, folder))
        for platform, image in built.platforms.items()
    }
    return replace(built, platforms=images)


def _write(
    folder: Path, stem: str, package: PatchedPackage, subject: Subject, sbom: bytes
) -> tuple[str, ...]:
    """Write the files of a build, and return their paths.

    The VEX document exists only if a patch names a CVE. The package was already verified against
    the lockfile.
    """
    documents = {"cdx.json": sbom, "intoto.json": provenance(package, subject)}
    fixed = vex(package, subject)
    if fixed is not None:
        documents["openvex.json"] = fixed
    written = []
    for suffix, data in sorted(documents.items()):
        path = folder / f"{stem}.{suffix}"
        with replacing(path, "name another folder with --attest") as file:
            file.write(data)
        written.append(str(path))
    return tuple(written)


def provenance(package: PatchedPackage, subject: Subject) -> bytes:
    """Return an in-toto statement with SLSA provenance (https://slsa.dev/spec/v1.0/provenance)."""
    target = package.target
    patches = [
        {"name": patch.name, "digest": {"sha256": patch.digest}} for patch in target.series.patches
    ]
    return to_json(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": subject.name, "digest": {"sha256": subject.sha256}}],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": f"pkg:pypi/pkgtools-patch#build-{subject.kind}",
                    "externalParameters": {
                        "target": target.name,
                        "series": target.series.digest,
                        "revisions": list(package.revisions),
                    },
                    "resolvedDependencies": [subject.base, *patches],
                },
                "runDetails": {"builder": {"id": TOOL}},
            },
        }
    )


def vex(package: PatchedPackage, subject: Subject) -> bytes | None:
    """Return an OpenVEX document (https://github.com/openvex/spec), or None without a CVE.

    Only the ``CVE:`` header of a patch counts: a mention in its text says nothing about a fix.
    """
    cves: dict[str, list[str]] = {}
    for patch in package.target.series.patches:
        for cve in headers_of(patch).cves:
            cves.setdefault(cve, []).append(patch.name)
    if not cves:
        return None
    product: dict[str, Any] = {"@id": subject.purl, "hashes": {"sha-256": subject.sha256}}
    if subject.purl != package.purl:
        product["subcomponents"] = [{"@id": package.purl}]
    when = timestamp(subject.made_at)
    document: dict[str, Any] = {
        "@context": "https://openvex.dev/ns/v0.2.0",
        "@id": "",
        "author": "pkgtools",
        "role": "Document Creator",
        "timestamp": when,
        "version": 1,
        "tooling": f"pkgtools/{__version__}",
        "statements": [
            {
                "vulnerability": {"name": cve},
                "timestamp": when,
                "products": [product],
                "status": "fixed",
                "status_notes": f"fixed by {', '.join(names)}",
            }
            for cve, names in sorted(cves.items())
        ],
    }
    digest = hashlib.sha256(to_json(document)).hexdigest()
    return to_json({**document, "@id": f"https://openvex.dev/docs/public/vex-{digest}"})
