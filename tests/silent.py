"""A reporter of progress that prints nothing."""

import contextlib
from contextlib import AbstractContextManager


class Silent:
    """Reports nothing."""

    def task(self, text: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context that does nothing."""
        return contextlib.nullcontext()
