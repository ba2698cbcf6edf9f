"""The headers that a catalog demands of its patches: ``[policy]`` in targets.toml."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pkgtools.catalog import Catalog, Target
from pkgtools.catalog.added import MESSAGE
from pkgtools.errors import CheckFailedError
from pkgtools.patch import Patch
from pkgtools.patch.headers import UPSTREAM_STATUS, headers_of


@dataclass(frozen=True)
class PolicyFault:
    """A way in which a patch does not follow the policy."""

    file: str
    message: str


@dataclass(frozen=True)
class PolicyFaults:
    """The details of a `PolicyError`."""

    faults: list[PolicyFault]


class PolicyError(CheckFailedError):
    """Patches do not have the headers that the catalog demands."""

    code = "policy"


def check_policy(catalog: Catalog, targets: Iterable[Target]) -> None:
    """Hold the patches of targets against the policy of their catalog."""
    if not catalog.policy:
        return
    patches = {str(p.path or p.name): p for target in targets for p in target.series.patches}
    faults = [fault for patch in patches.values() for fault in _faults(patch, catalog.policy)]
    if faults:
        lines = "".join(f"\n  {fault.file}: {fault.message}" for fault in faults)
        raise PolicyError(
            f"{catalog.path}: patches do not follow its policy:{lines}",
            remedy="add the headers to the messages of the patches, then run `pkgtools lock`",
            details=PolicyFaults(faults),
        )


def _faults(patch: Patch, names: Sequence[str]) -> Iterator[PolicyFault]:
    """Yield each way in which a patch does not follow the policy."""
    path = patch.path
    file = patch.name if path is None else str(path / MESSAGE if path.is_dir() else path)
    headers = headers_of(patch)
    for name in names:
        if headers.get(name) is None:
            yield PolicyFault(file, f"no {name} header")
    status = headers.upstream_status
    if "Upstream-Status" in names and status is not None and status not in UPSTREAM_STATUS:
        known = ", ".join(UPSTREAM_STATUS)
        yield PolicyFault(file, f"Upstream-Status is {status!r}, not one of {known}")
