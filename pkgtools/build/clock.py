"""The timestamp of a build: SOURCE_DATE_EPOCH or the base's time, never the clock's."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from typing import TypeVar

from pkgtools.errors import UsageError

_Default = TypeVar("_Default", bound="datetime | None")


def source_date(default: _Default) -> datetime | _Default:
    """Return SOURCE_DATE_EPOCH, or the time of the base.

    The variable is that of https://reproducible-builds.org/specs/source-date-epoch/.

    Raises:
        UsageError: the variable is not a valid time.

    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return default
    with contextlib.suppress(ValueError, OverflowError, OSError):
        if epoch.isdecimal():
            return datetime.fromtimestamp(int(epoch), UTC)
    raise UsageError(
        f"SOURCE_DATE_EPOCH is {epoch!r}, not seconds since 1970",
        remedy="unset it, or set it to `git log -1 --format=%ct`",
    )
