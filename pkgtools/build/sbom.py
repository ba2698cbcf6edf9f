"""The bill of materials of a build, as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).

The patched package has a pedigree: the upstream's release as its ancestor, and the patches. The
JSON is written directly: importing cyclonedx-python-lib takes 0.4 s, as long as building a wheel.
The tests validate it with that library.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from pkgtools import __version__
from pkgtools.build.clock import timestamp
from pkgtools.catalog import Target
from pkgtools.patch import Patch
from pkgtools.patch.headers import headers_of

TOOL: Final = f"pkg:pypi/pkgtools-patch@{__version__}"
"""This program as a package URL: a builder's id in SLSA's words."""


@dataclass(frozen=True)
class PatchedPackage:
    """A package with a target's series in it."""

    target: Target
    revisions: Sequence[str]
    base_version: str
    """Of the upstream's package."""
    version: str
    """Of the patched one."""
    base_sha256: str | None = None
    """Of the upstream's wheel, where it was built from one."""

    @property
    def base_purl(self) -> str:
        """The package URL of the upstream's package."""
        return _purl(self.target, self.base_version)

    @property
    def purl(self) -> str:
        """The package URL of the patched package."""
        return _purl(self.target, self.version)


def to_json(facts: object) -> bytes:
    """Return the document; equal facts give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n"


def wheel_sbom(package: PatchedPackage, name: str, made_at: datetime) -> bytes:
    """Return the bill of materials of a wheel (https://peps.python.org/pep-0770/)."""
    # Scanners look for packages among the components; few read what the document is about.
    wheel = {"type": "file", "bom-ref": name, "name": name, "version": package.version}
    return _document(wheel, package, made_at)


def image_sbom(package: PatchedPackage, reference: str, digest: str, made_at: datetime) -> bytes:
    """Return the bill of materials of the layer that an image has on top of its base.

    Its digest is the one in its store, and the time that of the base.
    """
    image = {"type": "container", "bom-ref": digest, "name": reference, "version": digest}
    return _document(image, package, made_at)


def _document(subject: dict[str, Any], package: PatchedPackage, made_at: datetime) -> bytes:
    tool = {"type": "application", "name": "pkgtools", "version": __version__, "purl": TOOL}
    return to_json(
        {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "timestamp": timestamp(made_at),
                "tools": {"components": [tool]},
                "component": subject,
            },
            "components": [_component(package)],
            "dependencies": [
                {"ref": subject["bom-ref"], "dependsOn": [package.purl]},
                {"ref": package.purl},
            ],
        }
    )


def _component(package: PatchedPackage) -> dict[str, Any]:
    target = package.target
    upstream = target.upstream
    ancestor: dict[str, Any] = {
        "type": "library",
        "name": upstream.distribution,
        "version": package.base_version,
        "purl": package.base_purl,
    }
    if upstream.git is not None:
        ancestor["externalReferences"] = [{"type": "vcs", "url": upstream.git}]
    if package.base_sha256:
        ancestor["hashes"] = [{"alg": "SHA-256", "content": package.base_sha256}]
    pedigree: dict[str, Any] = {
        "ancestors": [ancestor],
        "patches": [_patch(patch) for patch in target.series.patches],
        "notes": f"series {target.series.digest} of target {target.name}",
    }
    known = {revision.commit for revision in target.revisions}
    commits = [revision for revision in package.revisions if revision in known]
    if commits:
        where = {"url": upstream.git} if upstream.git is not None else {}
        pedigree["commits"] = [{"uid": commit, **where} for commit in commits]
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": upstream.distribution,
        "version": package.version,
        "purl": package.purl,
        "pedigree": pedigree,
    }


def _patch(patch: Patch) -> dict[str, Any]:
    headers = headers_of(patch)
    text = {"contentType": "text/x-diff"}
    try:
        text["content"] = patch.data.decode()
    except UnicodeDecodeError:
        text |= {"encoding": "base64", "content": base64.b64encode(patch.data).decode()}
    # CycloneDX' type of a patch, by its Upstream-Status.
    kind = "backport" if headers.upstream_status == "Backport" else "unofficial"
    made: dict[str, Any] = {"type": kind, "diff": {"text": text}}
    nvd = "https://nvd.nist.gov/vuln/detail/"
    issues: list[dict[str, Any]] = [
        {"type": "security", "id": cve, "source": {"name": "NVD", "url": f"{nvd}{cve}"}}
        for cve in headers.cves
    ]
    issues += [{"type": "defect", "id": bug, "description": patch.subject} for bug in headers.bugs]
    if issues:
        made["resolves"] = issues
    return made


def _purl(target: Target, version: str) -> str:
    """Return a package URL; see https://github.com/package-url/purl-spec."""
    name = target.upstream.distribution.lower().replace("_", "-")
    return f"pkg:pypi/{quote(name, safe='')}@{quote(version, safe='.-_~')}"
