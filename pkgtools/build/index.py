"""A package index of files: HTML (PEP 503) and JSON (PEP 691), for any static web server.

See https://packaging.python.org/en/latest/specifications/simple-repository-api/. The folder of a
project holds its wheels beside ``index.html`` and ``index.json``; equal wheels give equal bytes.
"""

import html
from collections.abc import Iterable, Mapping
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
    versions = {str(parse_wheel_filename(file["filename"])[1]) for file in files}
    project = {"meta": _META, "name": folder.name, "versions": sorted(versions), "files": files}
    names = sorted({folder.name, *(path.parent.name for path in index.glob("*/index.json"))})
    pages = {
        folder / "index.html": _page(map(_link, files)),
        folder / "index.json": to_json(project),
        index / "index.html": _page(f'<a href="{quote(n)}/">{html.escape(n)}</a>' for n in names),
        index / "index.json": to_json(
            {"meta": _META, "projects": [{"name": name} for name in names]}
        ),
    }
    for path, data in pages.items():
        replace_file(path, data)
    return list(pages)


def _file(path: Path, upstream: Upstream) -> dict[str, Any]:
    """Return what a project's page says of a wheel (PEP 691)."""
    with WheelSource(path, upstream) as wheel:
        requires = required_python(wheel.metadata)
    return {
        "filename": path.name,
        "url": quote(path.name),
        "hashes": {"sha256": sha256(path)},
        "requires-python": requires,
        "size": path.stat().st_size,
    }


def _link(file: Mapping[str, Any]) -> str:
    """Return the link of a wheel (PEP 503)."""
    url, requires = f"{file['url']}#sha256={file['hashes']['sha256']}", file["requires-python"]
    attribute = f' data-requires-python="{html.escape(requires)}"' if requires else ""
    return f'<a href="{url}"{attribute}>{html.escape(file["filename"])}</a>'


def _page(links: Iterable[str]) -> bytes:
    return (_HEAD + "".join(f"{link}<br>\n" for link in links)).encode()
