"""What each patch of a series does to a source."""

from __future__ import annotations

from pkgtools.authoring.applied import FileChange, Overlay
from pkgtools.blob import Blob


def test_two_renames_can_swap_two_names() -> None:
    a, b = Blob(b"a"), Blob(b"b")
    overlay = Overlay({"a": a, "b": b, "c": a}.get)
    overlay.add([FileChange("a", "b", a, a), FileChange("b", "a", b, b)])
    assert (overlay.read("a"), overlay.read("b"), overlay.read("c")) == (b, a, a)


def test_an_old_name_is_gone() -> None:
    overlay = Overlay({"a": Blob(b"a")}.get)
    overlay.add([FileChange("a", "b", Blob(b"a"), Blob(b"c"))])
    assert (overlay.read("a"), overlay.read("b")) == (None, Blob(b"c"))
