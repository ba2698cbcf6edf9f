"""Errors of the recipe's checks that carry evidence."""

from pkgtools.errors import CheckFailedError, UsageError


class EvidenceError(CheckFailedError):
    """A check of a deployment failed on what a server, a store or a file answered."""

    def __init__(self, message: str, *, evidence: object, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.evidence = evidence

    @property
    def details(self) -> object:
        """What was answered: its shape is that of the check."""
        return self.evidence


class MissingValuesError(UsageError):
    """A recipe lacks values that a site file has to give."""

    def __init__(self, message: str, *, remedy: str, keys: list[str]) -> None:
        super().__init__(message, remedy=remedy)
        self.keys = keys

    @property
    def details(self) -> object:
        """The keys of the values."""
        return {"missing": self.keys}
