"""How the core reports long work. The core itself never prints."""

from contextlib import AbstractContextManager
from typing import Protocol


class Reporter(Protocol):
    """The caller's display of long work."""

    def task(self, text: str) -> AbstractContextManager[None]:
        """Return a context that lasts as long as the work does."""
        ...
