"""Errors: each class has an exit code.

An error has a message and, unless the message says it, a remedy: the next thing to do.
An error can have more facts; ``--json`` prints them as ``details``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pkgtools.tree.check import Refusal
    from pkgtools.tree.state import Identity


class PkgtoolsError(Exception):
    """The base of all errors that a user can cause or meet."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"
    usual_remedy: ClassVar[str] = "correct what the message names, and run the command again"
    """The default remedy of this class."""

    def __init__(self, message: str, *, remedy: str | None = None, details: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self._details = details

    @property
    def details(self) -> object:
        """The additional facts for ``--json``, or None."""
        return self._details


class UsageError(PkgtoolsError):
    """The command line is wrong: an unknown target, conflicting options, a missing path."""

    exit_code = 2
    code = "usage"
    usual_remedy = "see `pkgtools COMMAND --help`"


class UnknownNameError(UsageError):
    """A name that the catalog does not have."""

    def __init__(self, message: str, name: str, nearest: Sequence[str], *, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.name = name
        self.nearest = nearest

    @property
    def details(self) -> object:
        """The name, and the known ones that resemble it."""
        return {"target": self.name, "nearest": self.nearest}


class SourceError(PkgtoolsError):
    """A source is not what the command needs.

    Args:
        message: what happened.
        remedy: what to do next.
        refusal: why a series does not apply to it.
        found: what the source is.

    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        refusal: Refusal | None = None,
        found: Identity | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.refusal = refusal
        self.found = found

    @property
    def details(self) -> object:
        """Why the series does not apply, or what the source is."""
        return self.refusal or self.found


class DoesNotApplyError(SourceError):
    """The series does not apply to this source."""

    exit_code = 3
    code = "does-not-apply"


class PartialError(SourceError):
    """Some of the series is in the tree, and some is not."""

    exit_code = 4
    code = "partial"


class ForeignError(SourceError):
    """The tree is not a known revision, or was edited after it was patched."""

    exit_code = 5
    code = "foreign"


class MalformedError(PkgtoolsError):
    """A file is not well-formed: a patch, series, lockfile, targets.toml, recipe or image."""

    exit_code = 6
    code = "malformed"
    usual_remedy = "correct the file, and run the command again"

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.file = file
        self.line = line
        self.key = key

    @property
    def details(self) -> object:
        """The place: file, line and, in TOML, key."""
        if self.file is None:
            return None
        place = {"file": self.file, "line": self.line}
        return place if self.key is None else place | {"key": self.key}


class TreeError(PkgtoolsError):
    """The tree, or another file, could not be read, written, locked or recovered."""

    exit_code = 7
    code = "tree"

    @classmethod
    def of(cls, error: OSError) -> Self:
        """Return the error for a failed system call."""
        return cls(f"{error.filename or 'a file'}: {error.strerror or error}")


class EngineError(TreeError):
    """The container engine, or a registry behind it, failed."""

    code = "engine"


class RegistryError(TreeError):
    """A registry refused a request or did not answer."""

    code = "registry"


class CheckFailedError(PkgtoolsError):
    """A check of a tree failed or could not run."""

    exit_code = 8
    code = "check-failed"


class SourceUnavailableError(CheckFailedError):
    """No source of a revision is available, so nothing can be verified."""

    code = "unverified"


def one_line(text: str) -> str:
    """Escape newlines so that untrusted text stays on one line."""
    return text.replace("\n", "\\n")
