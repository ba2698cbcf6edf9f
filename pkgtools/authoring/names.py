"""Names of patches: which ones a ``series`` file can hold, and which ones a target needs."""

import re
from collections.abc import Iterable
from typing import Final

from pkgtools.catalog import Catalog
from pkgtools.errors import UsageError
from pkgtools.patch import Patch

_NAME: Final = re.compile(r"[^\s/#.][^\s/#]*\.(?:patch|diff)")


def check_name(name: str) -> str:
    """Return the name of a patch file; a `UsageError` if a ``series`` file cannot hold it."""
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise UsageError(
            f"{name!r} cannot be the name of a patch: a `series` file lists it",
            remedy="name it like limit.patch, without folder, blank or #",
        )
    return name


def refuse_absorbed(catalog: Catalog, patches: Iterable[Patch]) -> None:
    """Raise where a target calls one of some patches, whose files go, absorbed."""
    for patch in patches:
        for target in catalog.targets:
            for path in target.absorbed:
                if patch.path is not None and path.samefile(patch.path):
                    raise UsageError(
                        f"{patch.name} is kept: {target.name} calls it absorbed, and is proven "
                        "with it",
                        remedy=f"take {target.absorbed_name(path)} out of `absorbed` of "
                        f"{target.name} in {catalog.path} first",
                    )
