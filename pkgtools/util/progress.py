"""How the core tells that something takes a while. It never prints itself."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Reporter(Protocol):
    """What a caller gives to hear of long work."""

    def task(self, text: str) -> AbstractContextManager[None]:
        """Return a context that lasts as long as the work does."""
        ...


class Silent:
    """Hears nothing."""

    def task(self, text: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context that does nothing."""
        return contextlib.nullcontext()
