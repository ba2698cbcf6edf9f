"""A patch that adds files in a folder that is not there yet."""

from __future__ import annotations

from typing import Final

import pytest

from pkgtools.blob import Blob
from pkgtools.patch import parse_patch
from pkgtools.plan.series import plan_series

_PATCH: Final = b"""\
diff --git a/src/widget/new/deep/file.py b/src/widget/new/deep/file.py
new file mode 100644
--- /dev/null
+++ b/src/widget/new/deep/file.py
@@ -0,0 +1 @@
+added
"""


@pytest.mark.parametrize("in_the_way", ["src/widget/new/deep", "src/widget/new", "src"])
def test_a_file_in_the_way_is_refused(in_the_way: str) -> None:
    def read(path: str) -> Blob | None:
        return Blob(b"x") if path == in_the_way else None

    plan = plan_series([parse_patch("0001.patch", _PATCH)], read)
    assert plan.rejections[0].message == f"{in_the_way} is not a directory"
