"""An upstream whose package lies at the top of its repository: ``prefix = ""``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from project import git

from pkgtools.catalog import Upstream
from pkgtools.source import find_tree

if TYPE_CHECKING:
    from pathlib import Path

_UPSTREAM = Upstream("flat", "https://git.example.invalid/flat", "flat", "flat", "")
_TARGETS = """\
[[upstream]]
name = "flat"
git = "https://git.example.invalid/flat"
distribution = "flat"
package = "flat"

[[target]]
name = "one"
upstream = "flat"
series = "one"
commit = "{commit}"
"""
_PATCH = """\
Subject: [PATCH] one

---
diff --git a/flat/a.py b/flat/a.py
--- a/flat/a.py
+++ b/flat/a.py
@@ -1 +1 @@
-A = 1
+A = 2
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Commit a package at the top of a repository."""
    root = tmp_path / "checkout"
    (root / "flat").mkdir(parents=True)
    (root / "flat/__init__.py").write_text("")
    (root / "flat/a.py").write_text("A = 1\n")
    (root / "flat/b.py").write_text("B = 1\n")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "one")
    return root


def test_a_checkout_is_one(checkout: Path, tmp_path: Path) -> None:
    for path in (checkout, checkout / "flat"):
        tree = find_tree(path, _UPSTREAM)
        assert (tree.root, tree.is_checkout) == (checkout, True)
        assert tree.home == checkout / ".git/pkgtools"
    installed = tmp_path / "site-packages"
    (installed / "flat").mkdir(parents=True)
    tree = find_tree(installed, _UPSTREAM)
    assert (tree.root, tree.is_checkout) == (installed, False)


def test_it_is_patched_and_reversed(checkout: Path, tmp_path: Path) -> None:
    series = tmp_path / "catalog/patches/flat/one"
    series.mkdir(parents=True)
    (series / "0001-one.patch").write_text(_PATCH)
    (series / "series").write_text("0001-one.patch\n")
    commit = git(checkout, "rev-parse", "HEAD").strip()
    targets = tmp_path / "catalog/targets.toml"
    targets.write_text(_TARGETS.format(commit=commit))
    assert call("lock", "--git", checkout, "--catalog", targets).code == 0
    where = ("--tree", checkout, "--catalog", targets)
    for verb, status in (("apply", " M flat/a.py\n"), ("reverse", "")):
        done = call(verb, *where)
        assert done.code == 0, done.err
        assert git(checkout, "status", "--porcelain") == status
        assert (checkout / "flat/a.py").read_text() == ("A = 2\n" if status else "A = 1\n")
