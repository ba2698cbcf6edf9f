"""Checks of a patched image, run inside a container of it.

The checks leave the image unchanged: their files go into a temporary container.
"""

import io
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pkgtools.catalog import Catalog, Target
from pkgtools.errors import EngineError, PkgtoolsError
from pkgtools.image import labels
from pkgtools.image.archive import add_file
from pkgtools.image.inside import COMPILE
from pkgtools.image.inspect import named_target, upstream_of
from pkgtools.image.layer import FileKind
from pkgtools.image.model import Image, Runnable
from pkgtools.image.tree import ExtractedPackage, extracted, query_of
from pkgtools.plan.compiling import compile_error
from pkgtools.source.receipt import load_receipt
from pkgtools.tree.verify import verify
from pkgtools.util.files import read_bytes
from pkgtools.util.progress import Reporter

_FOLDER: Final = "pkgtools-checks"


@dataclass(frozen=True)
class CheckResult:
    """The result of one check of an image."""

    name: str
    message: str | None
    """The reason of a failure; None if the check passed."""
    seconds: float
    remedy: str | None = None
    """The next step, if known."""


def claimed_targets(catalog: Catalog, image: Image) -> list[Target]:
    """Return the targets that an image's labels name."""
    groups = labels.label_groups(image.config.labels)
    named = [group[labels.TARGET] for group in groups if labels.TARGET in group]
    return [named_target(catalog, name, image.reference) for name in named]


def check_image(
    catalog: Catalog, target: Target | None, image: Runnable, reporter: Reporter
) -> Iterator[CheckResult]:
    """Run the checks of an image and yield each result.

    Identity by blob ids and RECORD is first, then compilation by the image's Python, then the
    upstream's own checks, which the catalog names. A check that cannot run fails. Without a
    target, the files decide which one is meant.
    """
    upstream = target.upstream if target else upstream_of(catalog, image.config.labels)
    query = query_of(catalog, upstream)
    with (
        reporter.task(f"reading {image.reference}"),
        extracted(image, query, image.find(query)) as part,
    ):
        yield _timed("identity", lambda: _identity(catalog, target, part))
        yield _timed("compilation", lambda: _compilation(image, part))
        folder = part.tree.place
    if upstream.checks is None:
        return
    with reporter.task(f"running {upstream.checks.name} in {image.reference}"):
        yield from _own(image, upstream.checks, folder)


def _identity(catalog: Catalog, target: Target | None, part: ExtractedPackage) -> None:
    verify(catalog, target, part.tree, series_only=True)


def _timed(name: str, check: Callable[[], str | None]) -> CheckResult:
    start = time.monotonic()
    remedy = None
    try:
        message = check()
    except PkgtoolsError as error:
        message, remedy = error.message, error.remedy
    return CheckResult(name, message, time.monotonic() - start, remedy)


def _compilation(image: Runnable, part: ExtractedPackage) -> str | None:
    """Have the image's Python compile the modules that a series touches."""
    modules = [
        f"/{path}"
        for path, member in sorted(part.members.items())
        if path.endswith(".py") and member.kind is FileKind.FILE
    ]
    lines = list(image.run(["-c", COMPILE, *modules]))
    try:
        found = msgspec.json.decode(lines[-1], type=dict[str, str])
    except (IndexError, msgspec.DecodeError, RecursionError):
        return f"the image's Python answered {''.join(lines[-1:])[:80]!r}"
    for path in modules:
        error = found.get(path, "not looked at")
        if error and not _is_template(part, path.removeprefix("/")):
            return f"{path}: {error}"
    return None


def _is_template(part: ExtractedPackage, path: str) -> bool:
    """Whether a file did not compile before the series either."""
    receipt = load_receipt(part.tree.home)
    files = (file for entry in receipt.entries for file in entry.files) if receipt else ()
    return any(
        file.original is not None
        and part.tree.file(file.path) == part.root / path
        and compile_error(path, file.original.blob()) is not None
        for file in files
    )


def _own(image: Runnable, script: Path, folder: str) -> Iterator[CheckResult]:
    """Run the upstream's checks in a container; each line of its output is a result."""
    count = 0
    try:
        for line in image.run([f"/{_FOLDER}/{script.name}", folder], _archive(script.parent)):
            try:
                check = msgspec.json.decode(line, type=CheckResult)
            except (msgspec.DecodeError, RecursionError):  # other output of the checks
                continue
            count += 1
            yield check
    except EngineError as error:
        yield CheckResult(script.stem, error.message, 0, error.remedy)
        return
    if not count:
        yield CheckResult(script.stem, f"{script.name} made no check", 0)


def _archive(folder: Path) -> bytes:
    """Return the folder of the checks as an archive; its files are world-readable."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.parent.name != "__pycache__":
                name = f"{_FOLDER}/{path.relative_to(folder).as_posix()}"
                add_file(archive, name, read_bytes(path))
    return out.getvalue()
