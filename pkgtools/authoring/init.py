"""Starting a catalog: one upstream, one target, and a series without patches."""

import json
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.metadata import parse_email
from packaging.utils import canonicalize_name, is_normalized_name
from packaging.version import InvalidVersion, Version

from pkgtools.authoring.lock import render_lock
from pkgtools.blob import Blob
from pkgtools.catalog import LockedRevision, Lockfile, Series, Target, Upstream, load_catalog
from pkgtools.catalog.series import LISTING, LOCKFILE
from pkgtools.catalog.writes import locked_catalog, write_catalog
from pkgtools.errors import MalformedError, TreeError, UsageError
from pkgtools.source.python import default_python, find_distribution, find_package
from pkgtools.source.release import release_wheel
from pkgtools.source.wheel import WheelSource
from pkgtools.util.files import put_blob
from pkgtools.util.progress import Reporter

_TABLE: Final = """\
# Upstreams, targets and aliases. `pkgtools lock` proves the series after a change.
name = {catalog}  # distinguishes this catalog from others, also in a clone
default = {name}  # what build takes without --target

[[upstream]]
name = {upstream}
{git}distribution = {distribution}  # its name on PyPI
package = {package}  # what Python imports
{prefix}
[[target]]
name = {name}
upstream = {upstream}
series = {name}  # the folder patches/{folder}
release = {release}
"""
_PREFIX: Final = "prefix = {}  # in the source tree, not in a wheel\n"
_SERIES: Final = (
    "# One patch a line, in the order in which they are applied: `pkgtools new` adds one.\n"
)


@dataclass(frozen=True)
class PackageFacts:
    """The facts of a package that a catalog needs; see `find_facts`."""

    distribution: str
    version: str
    package: str
    """What Python imports."""
    is_installed: bool = False


def find_facts(
    name: str, version: str | None, package: str | None, python: str | None, reporter: Reporter
) -> PackageFacts:
    """Return the facts of a package: as it is installed, else as its release on the index is.

    Without a `version` the installed one is meant, without a `package` the one that the
    distribution has; a `UsageError` where that is not certain.
    """
    _refuse_name(name)
    try:
        wanted = None if version is None else Version(version)
    except InvalidVersion:
        raise UsageError(
            f"{version!r} is not a version", remedy="give a release like 1.2.3 with --version"
        ) from None
    found = find_distribution(python, name)
    if found is not None:
        installed = Version(found.version).public  # a patched wheel's version has a local part
        if wanted in (None, Version(installed)):
            package = package or _package(name, found.files)
            return PackageFacts(found.name, installed, package, is_installed=True)
    if version is None:
        raise UsageError(
            f"{name} is not installed in {python or default_python()}",
            remedy=f"name a release: pkgtools init {name} --version VERSION; or give a wheel "
            "with --wheel, or the interpreter that has it with --python",
        )
    upstream = Upstream(name, None, name, package or name, "")
    return facts_of_wheel(release_wheel(upstream, version, {}, reporter), package)


def facts_of_wheel(path: Path, package: str | None) -> PackageFacts:
    """Return the facts of a package from its wheel."""
    name = path.name.partition("-")[0]
    with WheelSource(path, Upstream(name, None, name, package or name, "")) as wheel:
        files = [wheel.installed_name(info.filename) for info in wheel.members()]
        spelled = parse_email(wheel.metadata)[0].get("name", name)
        _refuse_name(spelled)
        version = Version(wheel.version).public
        return PackageFacts(spelled, version, package or _package(name, files))


def _refuse_name(name: str) -> None:
    if not is_normalized_name(canonicalize_name(name)):
        raise UsageError(
            f"{name!r} is not the name of a package", remedy="name it as on PyPI, like humanize"
        )


def linked_package(python: str | None, facts: PackageFacts) -> Path | None:
    """Return where the installed package is if its files are hard links, as uv makes them."""
    found = find_package(python, facts.package)
    if found is None:
        return None
    files = found.rglob("*.py") if found.is_dir() else [found]
    return found if any(path.stat().st_nlink > 1 for path in files) else None


def _package(name: str, files: Iterable[str]) -> str:
    """Return what Python imports of a distribution: its package, or its one module."""
    split = [file.removesuffix(".py").partition("/") for file in files if file.endswith(".py")]
    packages = {top for top, slash, _ in split if slash and top.isidentifier()}
    tops = packages or {top for top, slash, _ in split if not slash}
    found = {top for top in tops if not top.startswith("_")} or tops
    wanted = canonicalize_name(name).replace("-", "_")
    alike = [each for each in found if each.lower() == wanted]
    if len(found) == 1 or len(alike) == 1:
        return (alike or list(found))[0]
    if not split:  # an editable install lists no module
        return wanted
    raise UsageError(
        f"{name} has several packages: {', '.join(sorted(found))}",
        remedy=f"say which one is patched: --import {min(found)}",
    )


def _quote(text: str) -> str:
    """Return a TOML string, which JSON's is where it is not limited to ASCII."""
    return json.dumps(text, ensure_ascii=False)


def refuse_catalog(folder: Path) -> None:
    """Raise where a folder has a catalog already, or cannot have one."""
    if folder.exists() and not folder.is_dir():
        raise TreeError(f"{folder} is not a folder", remedy="name another with -o")
    path = folder / "targets.toml"
    if path.exists():
        raise UsageError(
            f"{path} exists already",
            remedy=f"see its targets: `pkgtools targets --catalog {path}`; add one with "
            "`pkgtools port --write`, or name another folder with -o",
        )


def start_catalog(
    folder: Path, facts: PackageFacts, *, git: str | None, tag: str | None, prefix: str
) -> Target:
    """Write a catalog with one target, and return that.

    The lockfile needs no source: a series without patches touches no file.

    Args:
        folder: the catalog's.
        facts: see `find_facts`.
        git: the URL of the repository.
        tag: of the release; by default ``v`` and the version, if there is a repository.
        prefix: the prefix of paths in the source tree that a wheel does not have.
    """
    upstream, name = canonicalize_name(facts.distribution), f"v{facts.version}"
    inside = f"patches/{upstream}/{name}"
    lock = Lockfile(
        version=1,
        series=Series(name, folder / inside, ()).digest,
        revision=[LockedRevision(file=[], release=facts.version)],
    )
    texts = {
        "targets.toml": _table(facts, upstream, name, git=git, tag=tag, prefix=prefix),
        f"{inside}/{LISTING}": _SERIES,
        f"{inside}/{LOCKFILE}": render_lock(lock),
    }
    files = {name: Blob(text.encode()) for name, text in texts.items()}
    _refuse_malformed(files)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TreeError(
            f"{folder} cannot be made: {error.strerror}", remedy="name another folder with -o"
        ) from None
    with locked_catalog(folder):
        refuse_catalog(folder)
        write_catalog(folder, {folder / name: blob for name, blob in files.items()})
    return load_catalog(folder / "targets.toml").target(name)


def _table(  # noqa: PLR0913 - keywords
    facts: PackageFacts, upstream: str, name: str, *, git: str | None, tag: str | None, prefix: str
) -> str:
    tag = tag or (name if git else None)
    release = f"version = {_quote(facts.version)}"
    release += f", tag = {_quote(tag)}" if tag else ""
    return _TABLE.format(
        catalog=_quote(f"{upstream}-{secrets.token_hex(4)}"),
        name=_quote(name),
        upstream=_quote(upstream),
        git=f"git = {_quote(git)}\n" if git else "",
        distribution=_quote(facts.distribution),
        package=_quote(facts.package),
        prefix=_PREFIX.format(_quote(prefix.rstrip("/") + "/")) if prefix else "",
        folder=f"{upstream}/{name}",
        release=f"{{ {release} }}",
    )


def _refuse_malformed(files: Mapping[str, Blob]) -> None:
    """Raise where options make a catalog that cannot be read, before it is written."""
    with tempfile.TemporaryDirectory(prefix="pkgtools-") as scratch:
        for name, blob in files.items():
            put_blob(Path(scratch, name), blob)
        try:
            load_catalog(Path(scratch, "targets.toml"))
        except MalformedError as error:
            reason = error.message.partition(": ")[2]
            raise UsageError(reason, remedy="correct the option, and run this again") from None
