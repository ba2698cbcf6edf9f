"""The timestamp of a build: SOURCE_DATE_EPOCH or the base's time, never the clock's."""

import contextlib
import os
from datetime import UTC, datetime
from typing import TypeVar

from pkgtools.errors import UsageError
from pkgtools.source import WheelSource

_Default = TypeVar("_Default", bound="datetime | None")


def source_date(default: _Default) -> datetime | _Default:
    """Return SOURCE_DATE_EPOCH, or the time of the base.

    The variable is that of https://reproducible-builds.org/specs/source-date-epoch/.
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


def wheel_date(wheel: WheelSource) -> datetime:
    """Return the time of the newest member of a wheel."""
    newest = max(info.date_time for info in wheel.members())
    try:
        return datetime(*newest, tzinfo=UTC)
    except ValueError:  # a zip file has fields for the 0th of a month and the 62nd second
        return datetime(1980, 1, 1, tzinfo=UTC)


def timestamp(when: datetime) -> str:
    """Return a time as SBOM and VEX documents have it (RFC 3339)."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
