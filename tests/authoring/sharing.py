"""A small catalog of three series that share a patch and a folder of added files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from project import PREFIX, git
from small import Small, make_small

from pkgtools.catalog import load_series

if TYPE_CHECKING:
    from pathlib import Path

A: Final = "".join(f"A_{n} = {n}\n" for n in range(20))
RELEASES: Final = {
    "1.0": {"a.py": A, "b.py": A},
    "1.1": {"a.py": f"NEW = 0\n{A}".replace("A_4 = 4", "A_4 = 44"), "b.py": A},
    "1.2": {"a.py": f"NEW = 0\nOLD = 0\n{A}".replace("A_4 = 4", "A_4 = 5"), "b.py": A},
}
# One line of context before the change, because A_4 differs between the releases.
LIMIT: Final = """\
From: Widget Maker <maker@example.invalid>
Subject: [PATCH] limit: one more

---
diff --git a/src/widget/a.py b/src/widget/a.py
--- a/src/widget/a.py
+++ b/src/widget/a.py
@@ -6,4 +6,5 @@
 A_5 = 5
+LIMIT = 1
 A_6 = 6
 A_7 = 7
 A_8 = 8
@@ -17,3 +18,4 @@
 A_16 = 16
+LAST = 1
 A_17 = 17
 A_18 = 18
"""
ADDED: Final = f"{PREFIX}widget/extra/added.py"


def make_sharing(root: Path) -> Small:
    """Build it: targets ``one``, ``two`` and ``three`` on 1.0, 1.1 and 1.2."""
    small = make_small(root, RELEASES, [("own", {"b.py": A.replace("A_3 = 3", "A_3 = 0")})])
    shelf = small.series.parent
    (shelf / "limit.patch").write_text(LIMIT)
    added = shelf / "extra"
    (added / ADDED).parent.mkdir(parents=True)
    (added / ADDED).write_text("ADDED = 1\nMORE = 2\n")
    (added / "MESSAGE").write_text("extra: a module\n")
    text = small.catalog.read_text()
    for series, version in (("two", "1.1"), ("three", "1.2")):
        (shelf / series).mkdir()
        text += f"""
[[target]]
name = "{series}"
upstream = "widget"
series = "{series}"
release = {{ version = "{version}", tag = "v{version}" }}
"""
        (shelf / series / "series").write_text("../extra/\n../limit.patch\n")
    (shelf / "three" / "series").write_text("../limit.patch\n")
    own = (small.series / "series").read_text()
    (small.series / "series").write_text(f"../extra/\n{own}../limit.patch\n")
    small.catalog.write_text(text)
    return small


def wheels(small: Small) -> list[str | Path]:
    """Return the options that give every wheel."""
    return [word for version in RELEASES for word in ("--wheel", small.wheel(version))]


def options(small: Small) -> list[str | Path]:
    """Return the options of a command on the catalog."""
    return ["--catalog", small.catalog, *wheels(small)]


def patched(small: Small, series: str, version: str, where: Path) -> Path:
    """Return a checkout of a release with a series in it, made by git."""
    git(small.repository, "worktree", "add", "--quiet", "--detach", where, f"v{version}")
    for patch in load_series(small.series.parent / series).patches:
        (where.parent / "patch").write_bytes(patch.data)
        git(where, "apply", where.parent / "patch")
    return where
