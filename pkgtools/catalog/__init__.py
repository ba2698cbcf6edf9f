"""The catalog: upstreams, targets and their series, as targets.toml names them."""

from pkgtools.catalog.lock import AbsorbedPatch, LockedFile, LockedRevision, LockedWheel, Lockfile
from pkgtools.catalog.model import Alias, Catalog, Revision, Target, TargetSet, Upstream
from pkgtools.catalog.series import Series, load_patch, load_series
from pkgtools.catalog.table import find_catalog, load_catalog

__all__ = [
    "AbsorbedPatch",
    "Alias",
    "Catalog",
    "LockedFile",
    "LockedRevision",
    "LockedWheel",
    "Lockfile",
    "Revision",
    "Series",
    "Target",
    "TargetSet",
    "Upstream",
    "find_catalog",
    "load_catalog",
    "load_patch",
    "load_series",
]
