"""The labels and manifest annotations of a patched image."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pkgtools import __version__
from pkgtools.catalog import Target
from pkgtools.image.model import Image

UPSTREAM: Final = "pkgtools.upstream"
TARGET: Final = "pkgtools.target"
REVISION: Final = "pkgtools.revision"
SERIES: Final = "pkgtools.series"
PATCHES: Final = "pkgtools.patches"
TREE: Final = "pkgtools.tree"
# https://github.com/opencontainers/image-spec/blob/main/annotations.md#pre-defined-annotation-keys
OCI: Final = "org.opencontainers.image."
OCI_REVISION: Final = f"{OCI}revision"
OCI_BASE_NAME: Final = f"{OCI}base.name"
OCI_BASE_DIGEST: Final = f"{OCI}base.digest"
_NUMBERED: Final = re.compile(r"pkgtools\.(\d{1,3})\.([\w.]+)")


def labels_of(
    target: Target, revisions: Sequence[str], image: Image, folder: str
) -> dict[str, str]:
    """Return the labels of an image with the series of `target` on top of `image`.

    They name the base by its id in its store, and by its manifest's digest if that is known.
    """
    labels = {
        "pkgtools.version": __version__,
        UPSTREAM: target.upstream.name,
        TARGET: target.name,
        REVISION: " ".join(revisions),
        SERIES: target.series.digest,
        PATCHES: " ".join(patch.name for patch in target.series.patches),
        TREE: f"/{folder}",
        "pkgtools.base.id": image.id,
    }
    if image.name:
        labels[OCI_BASE_NAME] = image.name
    if image.manifest_digest:
        labels[OCI_BASE_DIGEST] = image.manifest_digest
    commits = {revision.commit for revision in target.revisions}
    if len(revisions) == 1 and revisions[0] in commits:
        labels[OCI_REVISION] = revisions[0]
    return labels


def label_groups(said: Mapping[str, str]) -> list[dict[str, str]]:
    """Return an image's labels for each target, without numbers in their names.

    The labels of a second target have the number 2: ``pkgtools.2.target``.
    """
    first: dict[str, str] = {}
    groups: dict[int, dict[str, str]] = {}
    for key, value in said.items():
        if match := _NUMBERED.fullmatch(key):
            groups.setdefault(int(match[1]), {})[f"pkgtools.{match[2]}"] = value
        else:
            first[key] = value
    return [first, *(groups[number] for number in sorted(groups))]


def merged_labels(
    base: Mapping[str, str], labels: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """Return `labels` and the labels of one more target.

    A target keeps its number in the base, and a new target gets the next number: the base's
    targets stay in the image, and so do their labels.
    """
    said = {**base, **labels}
    numbers = [1] if TARGET in said else []
    numbers += [int(match[1]) for key in said if (match := _NUMBERED.fullmatch(key))]
    names = {n: (said.get(_numbered(UPSTREAM, n)), said.get(_numbered(TARGET, n))) for n in numbers}
    mine = (own[UPSTREAM], own[TARGET])
    number = next((n for n, name in names.items() if name == mine), max(numbers, default=0) + 1)
    if number > 1:  # what OCI calls the revision is the first one's
        own = {key: value for key, value in own.items() if key != OCI_REVISION}
    return {**labels, **{_numbered(key, number): value for key, value in own.items()}}


def _numbered(key: str, number: int) -> str:
    is_own = key.startswith("pkgtools.") and number > 1
    return f"pkgtools.{number}.{key.removeprefix('pkgtools.')}" if is_own else key
