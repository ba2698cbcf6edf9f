"""Diffs are git's, and nobody's configuration changes them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from pkgtools.authoring.gitdiff import FileChange, diff_text
from pkgtools.blob import Blob

if TYPE_CHECKING:
    from pathlib import Path

_BEFORE = b"A = 1\r\nB = 2\r\nC = 3\r\n"
_AFTER = b"A = 1\r\nB = 3\r\nC = 3\r\n"


@pytest.mark.parametrize("rule", ["* text=auto", "* text eol=lf", "*.py -diff", "*.py binary"])
@pytest.mark.parametrize("where", ["XDG_CONFIG_HOME", "HOME"])
def test_attributes_of_the_user_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, where: str
) -> None:
    folder = tmp_path / ("git" if where == "XDG_CONFIG_HOME" else ".config/git")
    folder.mkdir(parents=True)
    (folder / "attributes").write_text(f"{rule}\n")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv(where, str(tmp_path))
    diff = diff_text([FileChange("dos.py", "dos.py", Blob(_BEFORE), Blob(_AFTER))])
    assert b"\n-B = 2\r\n+B = 3\r\n" in diff
    file = tmp_path / "work" / "dos.py"
    file.parent.mkdir()
    file.write_bytes(_BEFORE)
    subprocess.run(["git", "apply"], cwd=file.parent, input=diff, check=True)
    assert file.read_bytes() == _AFTER
