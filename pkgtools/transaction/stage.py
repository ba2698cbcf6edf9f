"""Writing new content beside a file, and keeping the old one."""

import errno
import os
import shutil
import stat
from dataclasses import dataclass
from typing import Final

from pkgtools.blob import REGULAR, SYMLINK, Blob
from pkgtools.transaction import folders
from pkgtools.transaction.journal import Base, Operation, StagedFile
from pkgtools.util import files

# link(2) fails like this on FAT, across bind mounts, and under fs.protected_hardlinks.
_NO_LINKS: Final = {
    errno.EPERM,
    errno.EACCES,
    errno.EMLINK,
    errno.ENOTSUP,
    errno.EXDEV,
    errno.ENOSYS,
}


@dataclass(frozen=True)
class Write:
    """A file to be written, or removed."""

    base: Base
    name: str
    before: Blob | None
    after: Blob | None
    is_cache: bool = False
    permissions: int | None = None
    """For a file restored from a receipt; otherwise the old file's, or the usual ones."""
    mtime_ns: int | None = None
    """The same; otherwise now."""

    def operation(self) -> Operation:
        """Return what the journal says of it."""
        before = self.before.id if self.before else ""
        after = self.after.id if self.after else ""
        return Operation(self.base, self.name, before, after, self.is_cache)


def stage(write: Write, place: StagedFile) -> None:
    """Put the old and the new content beside the file."""
    status = None
    if write.before is not None:
        status = place.target.lstat()
        _keep_old(place)
    if write.after is None:
        return
    if write.after.mode == SYMLINK:
        place.new.symlink_to(os.fsdecode(write.after.data))
    else:
        files.write_new(place.new, write.after.data, permissions_of(write, status))
    # rename(2) puts a new inode in place, which would otherwise belong to the caller.
    folders.give_owner(place.new, status or place.new.parent.stat())
    if write.after.mode == SYMLINK:
        return
    if write.mtime_ns is not None:
        os.utime(place.new, ns=(write.mtime_ns, write.mtime_ns))
    elif status is not None and int(place.new.stat().st_mtime) == int(status.st_mtime):
        # Python tells stale bytecode by size and whole seconds of the source's mtime
        # (https://docs.python.org/3/reference/import.html#cached-bytecode-invalidation).
        later = (int(status.st_mtime) + 1) * 10**9
        os.utime(place.new, ns=(later, later))


def _keep_old(place: StagedFile) -> None:
    """Keep the very file, with its mode, owner and links; copy it where links cannot be made."""
    try:
        # A hard link costs no space and cannot be half written; some file systems have none.
        os.link(place.target, place.old, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(place.target, place.old, follow_symlinks=False)


def permissions_of(write: Write, status: os.stat_result | None) -> int:
    """Return the permissions of a file to write, in the place of one with a status."""
    if write.permissions is not None:
        return write.permissions
    usual = write.after.permissions if write.after is not None else 0o644
    if status is None or write.before is None or write.before.mode == SYMLINK:
        return usual
    old = stat.S_IMODE(status.st_mode)
    if write.after is None or write.after.mode == write.before.mode:
        return old
    # As `chmod +x` does under a umask: whoever may read the file may run it.
    readers = (old & 0o444) >> 2
    return old | readers if write.after.mode != REGULAR else old & ~0o111
