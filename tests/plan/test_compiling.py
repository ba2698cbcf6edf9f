"""A series must not break what compiled; what did not compile before is not its fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalogs import write_catalog
from commands import call
from scenarios import make_tree
from trees import snapshot

from pkgtools.blob import Blob
from pkgtools.errors import DoesNotApplyError
from pkgtools.patch import parse_patch
from pkgtools.plan import plan_series
from pkgtools.plan.compiling import broken_by

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

_CORE = "widget/core.py"


def test_lock_refuses_what_does_not_compile_any_more(project: Project, tmp_path: Path) -> None:
    broken = {_CORE: ("total = 0", "total = = 0")}
    with pytest.raises(DoesNotApplyError) as caught:
        write_catalog(project, tmp_path / "c", broken)
    said = caught.value.message
    assert "src/widget/core.py of widget_kit-1.0-py3-none-any.whl compiles, and does not" in said
    assert "after other.patch: invalid syntax" in said


@pytest.mark.parametrize(
    ("before", "path", "expected"),
    [
        (b"one = 1\n", "a.py", ["a.py"]),
        (b"{{ one }} = 1\n", "a.py", []),  # a template
        (b"print 1\n", "a.py", []),  # another Python's
        (b"one = 1\n", "a.txt", []),
    ],
)
def test_only_what_compiled_before_is_broken(before: bytes, path: str, expected: list[str]) -> None:
    diff = b"--- a/%s\n+++ b/%s\n@@ -1 +1,2 @@\n %s+two = = 2\n"
    patch = parse_patch("x.patch", diff % (path.encode(), path.encode(), before))
    plan = plan_series([patch], lambda name: Blob(before) if name == path else None)
    assert plan.ok
    assert [change.path for change, _ in broken_by(plan)] == expected


def test_two_series_that_break_each_other_are_refused(project: Project, tmp_path: Path) -> None:
    """Each compiles on its own, and every hunk of the second has its place."""
    tree = make_tree(project, "site", tmp_path)
    parameter = {_CORE: ("values, factor):", "values, factor, extra=None):")}
    variable = {_CORE: ("return total\n", "return total\n    global extra\n    extra = 1\n")}
    first = write_catalog(project, tmp_path / "a", parameter, target="first")
    second = write_catalog(project, tmp_path / "b", variable, target="later")
    assert call("apply", "--tree", tree.root, "--catalog", first).code == 0
    before = snapshot(tree.root)
    done = call("apply", "-t", "later", "--tree", tree.root, "--catalog", second)
    assert done.code == 3
    assert "core.py does not compile any more: name 'extra' is parameter and global" in done.err
    assert snapshot(tree.root) == before
