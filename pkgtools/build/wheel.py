"""A patched wheel: the upstream wheel plus the series.

Members that the series does not touch are copied as compressed bytes. The
version gets a local version label (https://peps.python.org/pep-0440/#local-version-identifiers)
that names the target and the series, so that installers tell the two wheels apart.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from packaging.version import Version

from pkgtools import __version__
from pkgtools.blob import REGULAR, SYMLINK, Blob
from pkgtools.build.clock import wheel_date
from pkgtools.build.sbom import PatchedPackage, to_json, wheel_sbom
from pkgtools.build.zipcopy import ZipCopy
from pkgtools.catalog import Catalog, Target
from pkgtools.errors import DoesNotApplyError, UsageError
from pkgtools.plan import Plan
from pkgtools.source import WheelSource
from pkgtools.source.receipt import PROVENANCE
from pkgtools.source.record import make_row, rename_row, row_path
from pkgtools.source.requires import with_requirements
from pkgtools.source.wheel import FETCH_AGAIN, fits_wheel
from pkgtools.tree.check import check, refuse_other_target, refuse_unfit
from pkgtools.tree.shadow import COMPILED
from pkgtools.util.files import replacing, sha256

_FIELD: Final = re.MULTILINE | re.IGNORECASE  # as a mail has its fields (RFC 822)
SBOM: Final = "sboms/pkgtools.cdx.json"
"""Where a bill of materials lies in a .dist-info (PEP 770)."""


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel that was built."""

    path: str
    version: str
    sha256: str
    target: str
    revisions: tuple[str, ...]
    base: str
    """The upstream wheel's file name."""
    patched: tuple[str, ...]
    """The members that the series made, changed or removed."""
    dropped: tuple[str, ...]
    """Signatures of the upstream wheel: of the patched one they would be false."""
    requirement: str
    """The line of a requirements file that pins it, with its hash."""
    attestations: tuple[str, ...] = ()
    """The files of ``--attest``."""
    index: tuple[str, ...] = ()
    """The pages of ``--index``."""


def build_wheel(catalog: Catalog, target: Target, source: WheelSource, folder: Path) -> BuiltWheel:
    """Write the patched wheel of `target` into a folder, which is created if it does not exist.

    The same target and wheel give the same bytes at any time and on any machine. The catalog is
    used to find the nearest revision of a refused wheel.
    """
    if not fits_wheel(target, source.path):
        refuse_unfit(target, source)
    with ThreadPoolExecutor(1) as pool:  # hashlib lets other threads run
        digesting = pool.submit(sha256, source.path)
        refuse_other_target(catalog, target, source)
        revisions, plan = check(catalog, target, source)
    if plan is None:
        raise UsageError(
            f"{source.label} is patched with {target.name} already",
            remedy="give the upstream's own wheel with --wheel",
        )
    names = _Names(source, local_version(source.version, target))
    files = _patched_files(target, source, plan, names)
    package = PatchedPackage(
        target=target,
        revisions=revisions,
        base_version=source.version,
        version=names.version,
        base_sha256=digesting.result(),
    )
    metadata_files = {
        names.info + "METADATA": _metadata(source, names, target.requires),
        names.info + PROVENANCE: Blob(_provenance(package, source.path.name)),
        names.info + SBOM: Blob(wheel_sbom(package, names.wheel, wheel_date(source))),
    }
    path = folder / names.wheel
    with replacing(path, "name another folder with -o") as out:
        _write(source, out, names, files | metadata_files)
    made = sha256(path)
    return BuiltWheel(
        path=str(path),
        version=names.version,
        sha256=made,
        requirement=f"{target.upstream.distribution}=={names.version} --hash=sha256:{made}",
        target=target.name,
        revisions=revisions,
        base=source.label,
        patched=tuple(sorted(files)),
        dropped=tuple(m.filename for m in source.members() if names.is_signature(m.filename)),
    )


def local_version(version: str, target: Target) -> str:
    """Return `version` with a local part that names the target and its series.

    PEP 440 allows letters, digits and dots there, and reads a part of digits
    alone as a number, so the digest has a letter before it.
    """
    name = re.sub(r"[^a-z0-9]+", ".", target.name.lower()).strip(".")
    digest = target.series.short_digest
    if target.requires:  # they are in the wheel, too
        facts = "\n".join([target.series.digest, *target.requires])
        digest = hashlib.sha256(facts.encode()).hexdigest()[: len(digest)]
    joint = "." if Version(version).local else "+"
    return str(Version(f"{version}{joint}{name}.s{digest}"))


class _Names:
    """The names of the new wheel: its version is in the file's and two folders' names."""

    def __init__(self, source: WheelSource, version: str) -> None:
        self.version = version
        name, _, *tags = source.path.name.split("-")
        self.wheel = "-".join([name, version, *tags])
        self.old_info = f"{source.info}/"
        self.info = f"{name}-{version}.dist-info/"
        self._data = f"{name}-{version}.data"

    def renamed(self, member: str) -> str:
        """Return the name of a member in the new wheel."""
        if member.startswith(self.old_info):
            return self.info + member.removeprefix(self.old_info)
        top, slash, rest = member.partition("/")
        return f"{self._data}/{rest}" if slash and top.endswith(".data") else member

    def is_signature(self, member: str) -> bool:
        """Whether a member signs RECORD (https://peps.python.org/pep-0427/)."""
        return member in (f"{self.old_info}RECORD.jws", f"{self.old_info}RECORD.p7s")


def _patched_files(
    target: Target, source: WheelSource, plan: Plan, names: _Names
) -> dict[str, Blob | None]:
    """Return the patched content of each changed member, by its new name."""
    files: dict[str, Blob | None] = {}
    for change in plan.changes:
        name = source.member(change.path)
        reason = _needs_a_build(source, name, change.before)
        if change.after is not None and change.after.mode == SYMLINK:
            # Installers unpack links as files (https://github.com/pypa/wheel/issues/203).
            reason = "is a symbolic link, which a wheel cannot hold"
        if reason:
            raise DoesNotApplyError(
                f"{target.name} cannot be built into a wheel: {change.path} {reason}",
                remedy="build from a patched source checkout instead",
            )
        files[names.renamed(name)] = change.after
    return files


def _needs_a_build(source: WheelSource, name: str, before: Blob | None) -> str | None:
    """Return why a change to a member needs a build from source."""
    suffix = PurePosixPath(name).suffix
    if suffix != ".py" and suffix not in COMPILED:
        return None
    built = source.compiled_beside(name)
    if built is not None:
        return f"is compiled into {built}, which the wheel has built already"
    if suffix in COMPILED and before is None and not source.has_alike(name):
        return "is compiled when the package is built"
    return None


def _write(
    source: WheelSource, out: BinaryIO, names: _Names, changed: Mapping[str, Blob | None]
) -> None:
    """Copy the archive and replace the `changed` members; write RECORD last."""
    # Archivers should put .dist-info last (https://peps.python.org/pep-0427/#recommended-archiver-features),
    # and RECORD has the hashes of all other members.
    record = names.old_info + "RECORD"
    left = dict(changed)
    with source.path.open("rb") as raw, ZipCopy(out, "w") as new:
        for info in source.members():
            name = names.renamed(info.filename)
            if names.is_signature(info.filename):
                continue
            if name in changed:
                blob = left.pop(name)
                if blob is not None:
                    new.write_member(name, blob.data, info, blob.mode)
            elif info.filename == record:
                last = info
            else:
                new.copy_member(raw, info, name)
        for name, blob in sorted(left.items()):
            if blob is not None:
                new.write_member(name, blob.data, last, blob.mode)
        rows = _record(source.read_member(record), names, changed)
        new.write_member(names.info + "RECORD", rows, last, REGULAR)


def _metadata(source: WheelSource, names: _Names, requires: Sequence[str]) -> Blob:
    """Check the .dist-info and return METADATA with the new version and requirements."""
    present = {info.filename for info in source.members()}
    for name in ("METADATA", "WHEEL", "RECORD"):
        if names.old_info + name not in present:
            raise UsageError(f"{source.label} has no {names.old_info}{name}", remedy=FETCH_AGAIN)
    old = source.read_member(names.old_info + "METADATA")
    version = f"Version: {names.version}".encode()
    new, count = re.subn(rb"^Version:[^\r\n]*", version, old, count=1, flags=_FIELD)
    if count != 1:
        raise UsageError(f"the METADATA of {source.label} has no version", remedy=FETCH_AGAIN)
    return Blob(with_requirements(new, requires) if requires else new)


def _record(raw: bytes, names: _Names, changed: Mapping[str, Blob | None]) -> bytes:
    """Return RECORD with the new names and the new hash of each changed member."""
    rows = []
    for row in raw.splitlines():
        old = row_path(row)
        name = names.renamed(old)
        is_kept = not names.is_signature(old) and name != names.info + "RECORD"
        if name not in changed and is_kept:
            rows.append(row + b"\n" if name == old else rename_row(row, name))
    rows += [make_row(name, blob.data) for name, blob in sorted(changed.items()) if blob]
    return b"".join([*rows, make_row(names.info + "RECORD", None)])


def _provenance(package: PatchedPackage, base: str) -> bytes:
    """Return the wheel's origin in the format of direct_url.json (PEP 610)."""
    target = package.target
    return to_json(
        {
            "format": 1,
            "pkgtools": __version__,
            "upstream": target.upstream.name,
            "target": target.name,
            "revisions": package.revisions,
            "series": target.series.digest,
            "patches": [{"name": p.name, "sha256": p.digest} for p in target.series.patches],
            "base": {"name": base, "archive_info": {"hashes": {"sha256": package.base_sha256}}},
        }
    )
