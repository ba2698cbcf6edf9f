"""What can go wrong, one class an exit code.

Every error says what happened and, where the message does not say it already, in
``remedy`` what to do next. ``details`` holds the same facts for a program; ``--json``
prints them.
"""

from __future__ import annotations

from typing import ClassVar, Self


class PkgtoolsError(Exception):
    """The base of all errors that a user can cause or meet."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, remedy: str | None = None, details: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.details = details


class UsageError(PkgtoolsError):
    """An unknown target, an option that does not fit, a path that is not there."""

    exit_code = 2
    code = "usage"


class DoesNotApplyError(PkgtoolsError):
    """The series does not apply to this source."""

    exit_code = 3
    code = "does-not-apply"


class PartialError(PkgtoolsError):
    """Some of the series is in the tree, and some is not."""

    exit_code = 4
    code = "partial"


class ForeignError(PkgtoolsError):
    """The tree is no known revision, or was edited since it was patched."""

    exit_code = 5
    code = "foreign"


class MalformedError(PkgtoolsError):
    """A file is not well-formed: a patch, series, lock, targets.toml, recipe or image."""

    exit_code = 6
    code = "malformed"


class TreeError(PkgtoolsError):
    """The tree, or another file, could not be read, written, locked or recovered."""

    exit_code = 7
    code = "tree"

    @classmethod
    def of(cls, error: OSError) -> Self:
        """Return what the operating system refused, as a refusal."""
        return cls(f"{error.filename or 'a file'}: {error.strerror or error}")


class EngineError(TreeError):
    """The container engine, or a registry behind it, did not do what it was asked."""

    code = "engine"


class CheckFailedError(PkgtoolsError):
    """A check of a tree failed, or could not be made."""

    exit_code = 8
    code = "check-failed"


class SourceUnavailableError(CheckFailedError):
    """A revision's source cannot be had, so nothing can be said of it."""

    code = "unverified"


def one_line(text: str) -> str:
    """Return what an image says of itself with its line ends shown: none is a line of an error."""
    return text.replace("\n", "\\n")
