"""A package index of files: HTML (PEP 503) and JSON (PEP 691), for any static web server.

See https://packaging.python.org/en/latest/specifications/simple-repository-api/. The folder of a
project holds its wheels beside ``index.html`` and ``index.json``; equal wheels give equal bytes.
"""

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from packaging.utils import canonicalize_name, parse_wheel_filename

from pkgtools.build.sbom import to_json
from pkgtools.catalog import Upstream
from pkgtools.source.requires import required_python
from pkgtools.source.wheel import WheelSource
from pkgtools.util.files import replace_file, sha256

_HEAD: Final = '<!DOCTYPE html>\n<meta name="pypi:repository-version" content="1.1">\n'
_META: Final = {"api-version": "1.1"}


@dataclass(frozen=True)
class _IndexedFile:
    name: str
    sha256: str
    size: int
    requires_python: str | None


def project_folder(index: Path, upstream: Upstream) -> Path:
    """Return the folder of an index in which the wheels of an upstream lie."""
    return index / canonicalize_name(upstream.distribution)


def write_index(index: Path, upstream: Upstream) -> list[Path]:
    """Write the pages of an index, and return them.

    Raises:
        OSError: one cannot be written.
    """
    folder = project_folder(index, upstream)
    files = [_file(path, upstream) for path in sorted(folder.glob("*.whl"))]
    projects = sorted(path.parent.name for path in index.glob("*/index.json"))
    projects = sorted({*projects, folder.name})
    pages = {
        folder / "index.html": _page(files),
        folder / "index.json": to_json(_project(folder.name, files)),
        index / "index.html": _links({name: f"{name}/" for name in projects}),
        index / "index.json": to_json(
            {"meta": _META, "projects": [{"name": name} for name in projects]}
        ),
    }
    for path, data in pages.items():
        replace_file(path, data)
    return list(pages)


def _file(path: Path, upstream: Upstream) -> _IndexedFile:
    with WheelSource(path, upstream) as wheel:
        requires = required_python(wheel.metadata)
    return _IndexedFile(path.name, sha256(path), path.stat().st_size, requires)


def _project(name: str, files: list[_IndexedFile]) -> dict[str, Any]:
    versions = {str(parse_wheel_filename(file.name)[1]) for file in files}
    return {
        "meta": _META,
        "name": name,
        "versions": sorted(versions),
        "files": [
            {
                "filename": file.name,
                "url": quote(file.name),
                "hashes": {"sha256": file.sha256},
                "requires-python": file.requires_python,
                "size": file.size,
            }
            for file in files
        ],
    }


def _page(files: list[_IndexedFile]) -> bytes:
    lines = []
    for file in files:
        attribute = ""
        if file.requires_python:
            attribute = f' data-requires-python="{html.escape(file.requires_python)}"'
        url = f"{quote(file.name)}#sha256={file.sha256}"
        lines.append(f'<a href="{url}"{attribute}>{html.escape(file.name)}</a><br>\n')
    return (_HEAD + "".join(lines)).encode()


def _links(targets: dict[str, str]) -> bytes:
    lines = (f'<a href="{url}">{html.escape(text)}</a><br>\n' for text, url in targets.items())
    return (_HEAD + "".join(lines)).encode()
