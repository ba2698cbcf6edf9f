"""Patch files as git writes them: reading, linting, never re-serialising."""

from pkgtools.patch.binary import BinaryChange
from pkgtools.patch.hunks import Hunk
from pkgtools.patch.mail import header_length, split_mails, subject_of
from pkgtools.patch.model import FilePatch, Kind, Patch, bare_name
from pkgtools.patch.order import in_order
from pkgtools.patch.parser import parse_patch, shown_level

__all__ = [
    "BinaryChange",
    "FilePatch",
    "Hunk",
    "Kind",
    "Patch",
    "bare_name",
    "header_length",
    "in_order",
    "parse_patch",
    "shown_level",
    "split_mails",
    "subject_of",
]
