"""How many folders to strip from a patch's names, worked out from the source that it is for."""

from dataclasses import dataclass, field, replace
from typing import Final

from pkgtools.catalog import Upstream
from pkgtools.errors import DoesNotApplyError, FilePlace, MalformedError
from pkgtools.patch import Patch, parse_patch, shown_level
from pkgtools.patch.cut import cut
from pkgtools.plan import plan_series
from pkgtools.source import Source

_DEEPEST: Final = 10


@dataclass(frozen=True)
class Mail:
    """One patch as it is found: a file, or a mail of a mailbox."""

    origin: str
    """What to call it in errors."""
    name: str
    """What it is called in the series."""
    data: bytes
    level: int | None
    """How many folders to strip, if it was given."""


@dataclass
class LevelFinder:
    """Reads patches one after the other, each on the result of the ones before it."""

    source: Source | None
    package: Upstream | None
    """Reads only this upstream's package; None reads every file."""
    level: int | None = None
    """How many folders to strip, unless the mail says so; None works it out for each patch."""
    patches: list[Patch] = field(default_factory=list)
    """The files of the package that were read."""

    def read(self, mail: Mail) -> Patch | None:
        """Read the next patch, and return its part for files outside the package."""
        level = self.level if mail.level is None else mail.level
        inner, outer = self._cut(mail, self._find(mail) if level is None else level)
        if inner is not None:
            self.patches.append(inner)
        return outer

    def _find(self, mail: Mail) -> int | None:
        """Return the level, or None to let `parse_patch` find it or refuse."""
        shown = shown_level(mail.origin, mail.data)
        if self.source is None:
            return None if shown is None else shown.number
        if shown is not None and shown.is_certain and self._fits(mail, shown.number, self.source):
            return shown.number
        fitting = [n for n in range(_DEEPEST) if self._fits(mail, n, self.source)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise MalformedError(
                f"{mail.origin}: its names fit {self.source.label} with "
                f"{' or '.join(map(str, fitting))} folders stripped from them",
                remedy="say which with -p",
                details=FilePlace(mail.origin, None),
            )
        return None if shown is None else shown.number

    def _cut(self, mail: Mail, level: int | None) -> tuple[Patch | None, Patch | None]:
        patch = replace(parse_patch(mail.origin, mail.data, level), name=mail.name)
        upstream = self.package
        if upstream is None:
            return patch, None
        return cut(patch, lambda path: upstream.installed_path(path) is not None)

    def _fits(self, mail: Mail, level: int, source: Source) -> bool:
        """Whether the patch applies at a level and its files have a place there.

        New files alone apply everywhere: one of them must lie in a folder that is there.
        """
        try:
            patch, _ = self._cut(mail, level)
            if patch is None or not plan_series([*self.patches, patch], source.read).ok:
                return False
            known = {path for earlier in self.patches for path in earlier.paths}
            paths = {file.old_path for file in patch.files}
            folders = {path.rpartition("/")[0] for path in paths} - {""}
            return bool(paths & known) or any(source.read(p) is not None for p in paths | folders)
        except (MalformedError, DoesNotApplyError):
            return False
