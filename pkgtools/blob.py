"""The content of one path: bytes and a git file mode."""

import hashlib
import stat
from dataclasses import dataclass
from typing import Final

REGULAR: Final = 0o100644
EXECUTABLE: Final = 0o100755
SYMLINK: Final = 0o120000
DIRECTORY: Final = 0o040000
SUBMODULE: Final = 0o160000
LIMIT: Final = 256 * 1024 * 1024
"""The most bytes to read from one member of an archive, image, receipt or patch.

Source files are far smaller; a larger claim is a decompression bomb (CWE-409)."""


@dataclass(frozen=True, slots=True)
class Blob:
    """What a source holds at a path.

    A symbolic link's data is its target, as in git. A directory has no data; it differs
    from a missing path so that a plan never puts a file on top of it.
    """

    data: bytes
    mode: int = REGULAR

    @property
    def id(self) -> str:
        """Git's id of the content, 40 hexadecimal digits (``git hash-object``)."""
        return blob_id(self.data)

    @property
    def permissions(self) -> int:
        """The permissions of a new file: git records the executable bit alone."""
        return 0o755 if self.mode == EXECUTABLE else 0o644

    @property
    def is_directory(self) -> bool:
        """Whether the path is a directory."""
        return self.mode == DIRECTORY


def blob_id(data: bytes) -> str:
    """Return git's blob id of `data`: SHA-1 over a header and the bytes.

    See https://git-scm.com/book/en/v2/Git-Internals-Git-Objects.
    """
    digest = hashlib.sha1(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def canonical_mode(mode: int) -> int:
    """Return the mode that git would record for a file of stat mode or git mode `mode`."""
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        return SYMLINK
    if kind == stat.S_IFDIR:
        return DIRECTORY
    if kind == SUBMODULE:
        return SUBMODULE
    return EXECUTABLE if mode & 0o100 else REGULAR
