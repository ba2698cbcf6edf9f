"""`make check` runs without PyTorch: a module that starts servers says so."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOR_MAKE_CHECK: Final = {"test_kill.py", "test_markers.py", "test_real_release.py"}


def test_each_module_is_marked_or_named_here() -> None:
    modules = sorted(Path(__file__).parent.glob("test_*.py"))
    unmarked = {m.name for m in modules if "\npytestmark = pytest.mark." not in m.read_text()}
    assert unmarked == _FOR_MAKE_CHECK
