"""Whether a wheel, or what was installed from it, has the requirements of its target."""

from pkgtools.catalog import Target
from pkgtools.errors import CheckFailedError
from pkgtools.source import Source, Tree, WheelSource
from pkgtools.source.receipt import PROVENANCE
from pkgtools.source.requires import differing
from pkgtools.util.files import read_bytes


def check_requires(target: Target, source: Source) -> None:
    """Raise unless METADATA has the requirements of a target.

    A tree that `apply` patched keeps the METADATA of its package manager.
    """
    metadata = _metadata(source) if target.requires else None
    wrong = differing(metadata, target.requires) if metadata is not None else []
    if wrong:
        raise CheckFailedError(
            f"{source.label}: METADATA does not have the requirement {', '.join(wrong)} of "
            f"{target.name}",
            remedy=f"build the wheel again: `pkgtools build wheel --target {target.name}`",
        )


def _metadata(source: Source) -> bytes | None:
    if isinstance(source, WheelSource):
        return source.metadata
    info = source.dist_info if isinstance(source, Tree) else None
    if info is None or not (info / PROVENANCE).is_file():
        return None
    return read_bytes(info / "METADATA")
