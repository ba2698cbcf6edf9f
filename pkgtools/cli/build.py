"""``pkgtools build``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkgtools.catalog import Catalog, Target
from pkgtools.cli import common
from pkgtools.cli.common import Output
from pkgtools.cli.output import plain
from pkgtools.errors import EngineError, SourceUnavailableError, UsageError
from pkgtools.source import WheelSource

if TYPE_CHECKING:
    from pkgtools.build.image import BuiltImage, BuiltIndex
    from pkgtools.image.model import KnownFacts, Runnable


_attest_option = click.option(
    "--attest",
    type=common.PATH,
    help="Write SBOM, SLSA provenance and, for fixed CVEs, OpenVEX into this folder.",
)


@click.group()
def build() -> None:
    """Build a patched wheel or container image.

    \b
    Examples:
      pkgtools build wheel --target v0.5.23
      pkgtools build image --target v0.5.23 --base lmsysorg/sglang:v0.5.23
    """


@common.command(group=build, short_help="Build a patched wheel.")
@common.target_option
@click.option("--wheel", "path", type=common.EXISTING_PATH, help="The upstream's wheel.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=common.PATH,
    default=Path("dist"),
    show_default=True,
    help="The folder to write into.",
)
@click.option("--index", is_flag=True, help="Make that folder a package index (PEP 503 and 691).")
@_attest_option
def wheel(
    target: str | None,
    path: Path | None,
    folder: Path,
    index: bool,
    attest: Path | None,
    catalog: Catalog,
) -> Output:
    """Build the upstream's wheel with a target's series in it.

    Without --wheel, pip downloads the release into a cache. The version gets a
    local part that names the target and its series (0.5.23+v0.5.23.sDIGEST).
    The same target and wheel give the same bytes. A CycloneDX SBOM of the patches is
    in .dist-info/sboms (PEP 770). pip and uv can use the folder as --find-links, or
    with --index as --index-url. The printed requirement pins the wheel.

    \b
    Examples:
      pkgtools build wheel --target v0.5.23
      pkgtools build wheel --target v0.5.17 --wheel sglang-0.5.17-*.whl -o wheels
      pkgtools build wheel --target v0.5.23 -o public --index
      pkgtools build wheel --target v0.5.23 --attest attestations
    """
    from pkgtools.build.index import project_folder, write_index  # noqa: PLC0415 - not for an image
    from pkgtools.build.wheel import build_wheel  # noqa: PLC0415
    from pkgtools.tree.release import other_version  # noqa: PLC0415

    chosen = catalog.target(target)
    place = project_folder(folder, chosen.upstream) if index else folder
    with _source(chosen, path) as source:
        built = build_wheel(catalog, chosen, source, place)
        if index:
            pages = write_index(folder, chosen.upstream)
            built = replace(built, index=tuple(map(str, pages)))
        if attest is not None:
            from pkgtools.build.attest import attest_wheel  # noqa: PLC0415 - few ask for it

            files = attest_wheel(catalog, chosen, built, source, attest)
            built = replace(built, attestations=files)
        version = other_version(built.revisions, source)
    lines = [
        f"built {built.path}",
        f"  sha256 {built.sha256}",
        f"  {built.base} with {built.target}",
        *common.release_note(built.target, built.revisions, version),
        *(f"  {name}" for name in built.patched),
        *(f"  without {name}: it signs the upstream wheel" for name in built.dropped),
        *(f"  {name}" for name in (*built.index, *built.attestations)),
        f"  requirement: {built.requirement}",
    ]
    return Output(built, lines)


@common.command(group=build, short_help="Build a patched container image.")
@common.targets_option
@click.option("--base", required=True, help="The image to build on.")
@click.option(
    "--tag",
    help="The new image's name.  [default: the base's, with the target and the series' digest]",
)
@click.option("--push", is_flag=True, help="Push it to its registry, through the engine.")
@_attest_option
@click.option(
    "--facts",
    metavar="PLACE",
    help="Trust these facts about the base, from pkgtools image facts: a file, or "
    "docker://HOST/NAME.",
)
@common.image_platform_option
@common.image_tree_option
@common.image_python_option
def image(
    targets: tuple[str, ...],
    base: str,
    tag: str | None,
    push: bool,
    attest: Path | None,
    facts: str | None,
    platform: str | None,
    tree: str | None,
    python: str | None,
    catalog: Catalog,
) -> Output:
    """Build an image from a base and one more layer with the series of one or more targets.

    The base is an image in the Docker engine that DOCKER_HOST or the current context
    names. Without an engine, it is docker://HOST/NAME[:TAG|@DIGEST], an image in a
    registry, which is not pulled; oci:DIR[:NAME], an OCI image layout; or
    docker-archive:FILE[:NAME], a file that docker save wrote. --tag
    docker://HOST/NAME:TAG pushes the new image; base and new image can be in different
    places. If the base has several platforms, each is patched. The base keeps its name.
    The same target and base give the same digest. Without --target, the base's labels
    choose the target, otherwise the catalog's default.

    \b
    Examples:
      pkgtools build image --target v0.5.23 --base lmsysorg/sglang:v0.5.23
      pkgtools build image --base sglang:1 --tag registry.example.com/sglang:1-k3 --push
      pkgtools build image --target v0.5.23 --base docker://lmsysorg/sglang:v0.5.23
        --tag docker://registry.example.com/sglang:v0.5.23-k3
      pkgtools build image -t v0.5.23 -t kernel-0.3.1 --base lmsysorg/sglang:v0.5.23
      pkgtools build image --target v0.5.17 --base oci:layout:v0.5.17 --attest attestations
    """
    from pkgtools.build.image import build_image, build_index  # noqa: PLC0415 - not for a wheel
    from pkgtools.image.exchange import images_of, open_facts, trust_facts  # noqa: PLC0415
    from pkgtools.image.inspect import labelled_target  # noqa: PLC0415
    from pkgtools.image.model import Image, Runnable  # noqa: PLC0415
    from pkgtools.image.reference import open_base  # noqa: PLC0415

    chosen = [catalog.target(n) for n in catalog.expanded(targets)]
    trusted: AbstractContextManager[KnownFacts | None] = (
        open_facts(facts) if facts else contextlib.nullcontext()
    )
    with open_base(base, tree, python, platform) as opened, trusted as known:
        if known is not None:
            trust_facts(opened, known)
        said = images_of(opened)[0].config.labels
        chosen = chosen or [labelled_target(catalog, said) or catalog.target(None)]
        pusher = opened if push and isinstance(opened, Runnable) else None
        if push and pusher is None:
            raise UsageError(
                "--push needs an image in the Docker engine: the base is elsewhere",
                remedy="push the new image by its name: --tag docker://HOST/NAME:TAG",
            )
        if not isinstance(opened, Image):
            index = build_index(catalog, chosen, opened, common.Progress(), tag)
            if attest is not None:
                from pkgtools.build.attest import attest_index  # noqa: PLC0415 - few ask for it

                index = attest_index(chosen, index, attest)
            return Output(index, _index_lines(index))
        built = build_image(catalog, chosen, opened, common.Progress(), tag)
        if pusher is not None:
            built = replace(built, digest=_push(pusher, built))
    if attest is not None:
        from pkgtools.build.attest import attest_image  # noqa: PLC0415 - few ask for it

        built = replace(built, attestations=attest_image(chosen, built, attest))
    return Output(built, _image_lines(built, is_pushed=push))


def _image_lines(built: BuiltImage, *, is_pushed: bool) -> Iterator[str]:
    is_pushed = is_pushed or built.reference.startswith("docker://")
    yield f"built {built.reference}"
    yield f"  id {built.id}"
    if built.digest:
        yield f"  digest {built.digest}" + (", pushed" if is_pushed else "")
    yield from _layer_lines(built)


def _layer_lines(built: BuiltImage) -> Iterator[str]:
    for each in built.targets:
        yield f"  {built.base} with {each.target} ({common.short(each.revisions)})"
        if each.replaced:
            yield "  instead of an older series, which was undone"
    yield f"  one layer of {built.layer_bytes} bytes"
    yield from (f"  /{plain(path)}" for path in built.written)
    yield from (f"  /{plain(path)} removed" for path in built.removed)
    yield from (f"  {path}" for path in built.attestations)
    yield from (f"  read by table of contents: {plain(digest)}" for digest in built.by_table)


def _index_lines(built: BuiltIndex) -> Iterator[str]:
    is_pushed = built.reference.startswith("docker://")
    yield f"built {built.reference}"
    yield f"  digest {built.digest}" + (", pushed" if is_pushed else "")
    for digest in built.dropped:
        yield f"  dropped the attestation {plain(digest)} of the base"
    for platform, image in built.platforms.items():
        yield f"{plain(platform)}: layer {image.layer}"
        yield from _layer_lines(image)


def _push(pusher: Runnable, built: BuiltImage) -> str:
    """Push an image and return its digest; an error has the facts about what was built."""
    try:
        with common.Progress().task(f"pushing {built.reference}"):
            return pusher.push(built.reference)
    except EngineError as error:
        raise EngineError(error.message, remedy=error.remedy, details=built) from None


def _source(target: Target, path: Path | None) -> WheelSource:
    if path is not None:
        return WheelSource(path, target.upstream)
    if target.revision.version is None:
        raise SourceUnavailableError(
            f"{target.name} is a commit, so the package index has no wheel of it",
            remedy="build a wheel of that commit and give it with --wheel",
        )
    from pkgtools.source.at_hand import AtHand  # noqa: PLC0415

    return AtHand(common.Progress(), download=True).wheels(target, target.revision.version)[0]
