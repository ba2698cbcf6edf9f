"""Errors: each class has an exit code.

An error has a message and, unless the message says it, a remedy: the next thing to do.
An error can have more facts, `details`, which ``--json`` prints: a dataclass for each kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Evidence(dict[str, Any]):
    """What a server, a store or a file of a deployment answered, in the shape of its check."""


@dataclass(frozen=True)
class FilePlace:
    """The place of a fault in a file."""

    file: str
    line: int | None


class PkgtoolsError(Exception):
    """The base of all errors that a user can cause or meet."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"
    usual_remedy: ClassVar[str] = "correct what the message names, and run the command again"
    """The default remedy of this class."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        details: DataclassInstance | Evidence | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.details = details


class UsageError(PkgtoolsError):
    """The command line is wrong: an unknown target, conflicting options, a missing path."""

    exit_code = 2
    code = "usage"
    usual_remedy = "see `pkgtools COMMAND --help`"


class DoesNotApplyError(PkgtoolsError):
    """The series does not apply to this source."""

    exit_code = 3
    code = "does-not-apply"


class PartialError(PkgtoolsError):
    """Some of the series is in the tree, and some is not."""

    exit_code = 4
    code = "partial"


class ForeignError(PkgtoolsError):
    """The tree is not a known revision, or was edited after it was patched."""

    exit_code = 5
    code = "foreign"


class MalformedError(PkgtoolsError):
    """A file is not well-formed: a patch, series, lockfile, targets.toml, recipe or image."""

    exit_code = 6
    code = "malformed"
    usual_remedy = "correct the file, and run the command again"


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
