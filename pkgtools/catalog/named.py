"""The series that a user names: by its folder, or by a target that has it."""

from dataclasses import dataclass
from pathlib import Path

from pkgtools.catalog.model import Catalog, Upstream
from pkgtools.catalog.series import Series, load_series
from pkgtools.errors import UsageError


@dataclass(frozen=True)
class NamedSeries:
    """A series, whose it is, and the name of the source that it is for."""

    directory: Path
    upstream: Upstream
    source: str | None

    def load(self) -> Series:
        """Read its patches."""
        return load_series(self.directory)

    def load_patched(self) -> Series:
        """Read its patches; raise a `UsageError` if it has none, as after `pkgtools init`."""
        series = self.load()
        if not series.patches:
            raise UsageError(
                f"{self.directory} has no patches yet",
                remedy="edit the source, and make a patch of it: "
                f"`pkgtools new NAME --series {self.source or self.directory} -m TEXT`",
            )
        return series

    def source_name(self, given: str | None) -> str:
        """Return the name of its source, or raise a `UsageError`."""
        name = given or self.source
        if name is None:
            raise UsageError(
                f"{self.directory} belongs to no target", remedy="name its source with --from"
            )
        return name


def named_series(table: Catalog, name: str) -> NamedSeries:
    """Return the series in a folder, or of a target."""
    if (Path(name) / "series").is_file():
        directory = Path(name).resolve()
        for target in table.targets:
            if target.directory.resolve() == directory:
                return NamedSeries(directory, target.upstream, target.name)
        owners = [u for u in table.upstreams if u.name == directory.parent.name]
        return NamedSeries(directory, (owners or table.upstreams)[0], None)
    target = table.target(name)
    return NamedSeries(target.directory, target.upstream, name)
