"""How quick a patched wheel or image is beside doing it with patch(1).

    python benchmarks/build.py
    python benchmarks/build.py --base IMAGE

A wheel is held against `wheel unpack`, patch(1) and `wheel pack`: this needs the
`wheel` package. An image of a Docker engine that has the release of the target is
held against a Dockerfile that patches with RUN, and as an OCI image layout too:
this needs skopeo. The RUN installs patch(1) where the base has none, as a slim one
has not, over the host's network. Prints medians and ratios, of a base that was
built on before, as in every build but the first, and of one that is read anew.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

from timing import PKGTOOLS, patch_files, print_header, print_row, run, seconds

from pkgtools.catalog import Target, find_catalog, load_catalog
from pkgtools.cli.common import Progress
from pkgtools.image.names import with_tag
from pkgtools.source.release import release_wheel

_NAME: Final = "pkgtools-benchmark"
"""Of the images that are built in the engine, and removed behind it."""


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--runs", default=5, type=int, help="of each side (default 5)")
    parser.add_argument("-t", "--target", default="v0.5.17", help="a release (default v0.5.17)")
    parser.add_argument("--base", help="an image with that release, to be patched")
    options = parser.parse_args()
    target = load_catalog(find_catalog(Path.cwd())).target(options.target)
    with tempfile.TemporaryDirectory() as scratch:
        if options.base is not None:
            _image(target, options.base, Path(scratch), options.runs)
            return
        assert target.revision.version is not None
        wheel = release_wheel(target.upstream, target.revision.version, {}, Progress())
        print_header()
        _wheel(target, wheel, Path(scratch), options.runs)


def _wheel(target: Target, wheel: Path, scratch: Path, runs: int) -> None:
    patches = patch_files(target.series, scratch / "patches")

    def ours() -> None:
        command = ["build", "wheel", "--target", target.name, "--wheel", str(wheel)]
        run([*PKGTOOLS, *command, "-o", str(scratch / "ours")])

    def instead() -> None:
        unpacked = scratch / "unpacked"
        run([sys.executable, "-m", "wheel", "unpack", "--dest", str(unpacked), str(wheel)])
        tree = next(unpacked.iterdir())
        for patch in patches:
            run(["patch", "-p2", "-i", str(patch)], cwd=tree)
        run([sys.executable, "-m", "wheel", "pack", "--dest-dir", str(scratch), str(tree)])
        shutil.rmtree(unpacked)

    print_row(f"{target.name}, a patched wheel", ours, instead, runs)
    copy = seconds(lambda: run(["cp", str(wheel), str(scratch / "copy")]))
    print(f"{'copying its bytes':42} {copy:8.2f}s")


def _image(target: Target, base: str, scratch: Path, runs: int) -> None:
    context = scratch / "context"
    patches = patch_files(target.series, context / "patches")
    site = json.loads(_output([*PKGTOOLS, "image", "inspect", base, "--json"]))["tree"]
    names = " ".join(patch.name for patch in patches)
    bring = "command -v patch || (apt-get update && apt-get install --yes patch)"
    steps = f"cd {site} && for p in {names}; do patch -p2 -i /patches/$p || exit 1; done"
    dockerfile = f"FROM {base}\nRUN {bring}\nCOPY patches /patches\nRUN {steps}\n"
    (context / "Dockerfile").write_text(dockerfile)
    layout = f"oci:{scratch / 'layout'}:base"
    run(["skopeo", "copy", "--insecure-policy", f"docker-daemon:{with_tag(base)}", layout])

    def ours(image: str, made: str, cache: Path) -> None:
        command = ["build", "image", "--target", target.name, "--base", image, "--tag", made]
        run([*PKGTOOLS, *command], env={"XDG_CACHE_HOME": str(cache)})

    def ours_anew(image: str, made: str) -> None:
        with tempfile.TemporaryDirectory() as cache:
            ours(image, made, Path(cache))

    def instead() -> None:
        options = ["--no-cache", "--quiet", "--network", "host", "--label", _NAME, "--tag", _NAME]
        run(["docker", "build", *options, str(context)])

    sides = (base, f"{_NAME}:ours", "in an engine"), (layout, f"{layout}-ours", "an OCI layout")
    print_header()
    try:
        for image, made, where in sides:
            known, anew = partial(ours, image, made, scratch), partial(ours_anew, image, made)
            print_row(f"{where}, a known base", known, instead, runs)
            print_row(f"{where}, read anew", anew, instead, runs)
    finally:
        run(["docker", "rmi", "--force", _NAME, f"{_NAME}:ours"])
        # Every build took the name from the one before.
        run(["docker", "image", "prune", "--force", "--filter", f"label={_NAME}"])
    _print_sizes(target, layout, scratch / "layout")


def _print_sizes(target: Target, base: str, layout: Path) -> None:
    """Print what the layer is made of, in bytes."""
    command = ["build", "image", "--target", target.name, "--base", base]
    built = json.loads(_output([*PKGTOOLS, *command, "--tag", f"{base}-measured", "--json"]))
    sizes: Counter[str] = Counter()
    with tarfile.open(layout / "blobs" / built["layer"].replace(":", "/")) as layer:
        for info in layer:
            kind = "bytecode" if info.name.endswith(".pyc") else "touched files"
            sizes["RECORD and the receipt" if ".dist-info/" in info.name else kind] += info.size
    print(f"the layer has {built['layer_bytes']} bytes:")
    for kind, size in sizes.items():
        print(f"  {size:9} {kind}")


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
