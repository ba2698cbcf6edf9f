"""What each patch of a series does to a source."""

from __future__ import annotations

from pkgtools.authoring.applied import PatchedSource
from pkgtools.authoring.gitdiff import FileChange
from pkgtools.blob import Blob


def test_two_renames_can_swap_two_names() -> None:
    a, b = Blob(b"a"), Blob(b"b")
    patched = PatchedSource({"a": a, "b": b, "c": a}.get)
    patched.add([FileChange("a", "b", a, a), FileChange("b", "a", b, b)])
    assert (patched.read("a"), patched.read("b"), patched.read("c")) == (b, a, a)


def test_an_old_name_is_gone() -> None:
    patched = PatchedSource({"a": Blob(b"a")}.get)
    patched.add([FileChange("a", "b", Blob(b"a"), Blob(b"c"))])
    assert (patched.read("a"), patched.read("b")) == (None, Blob(b"c"))
