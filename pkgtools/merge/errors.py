"""How the rules say that they leave a decision to a person."""

from __future__ import annotations


class Unsure(Exception):  # noqa: N818 - it is an answer, not a failure
    """There is no single right way to carry a change over; the message says why."""

    @property
    def reason(self) -> str:
        """Why, for the report."""
        return str(self.args[0])
