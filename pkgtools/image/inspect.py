"""Compare the labels and receipt of a patched image with its files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pkgtools.catalog import Catalog, Target, Upstream
from pkgtools.errors import CheckFailedError, PkgtoolsError, UsageError, one_line
from pkgtools.image import labels as names
from pkgtools.image.model import Image
from pkgtools.image.tree import ExtractedPackage, ImageTree, extracted, query_of
from pkgtools.tree.stack import load_stack
from pkgtools.tree.state import State, match_all
from pkgtools.tree.status import Status, status_of
from pkgtools.tree.verify import verify
from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class Inspection:
    """An image's labels and receipt, compared with its files."""

    reference: str
    id: str
    digest: str | None
    """As in `Image`, like `id`."""
    tree: str
    """The package's folder in the image."""
    labels: Mapping[str, str]
    """The labels of pkgtools, and the labels that OCI defines."""
    status: Status
    """The state of the files."""
    mismatches: tuple[str, ...]
    """Each statement of the labels or a receipt that the files contradict."""
    also: tuple[Status, ...] = ()
    """The state of the other targets' files, if the labels name several."""
    by_table: tuple[str, ...] = ()
    """As `FoundPackage.by_table`."""


def inspect_image(catalog: Catalog, image: Image, reporter: Reporter) -> Inspection:
    """Compare an image's labels and receipt with its files.

    A receipt is verified as labels are, with or without labels.
    """
    every = [
        _inspect(catalog, image, said, reporter) for said in names.label_groups(image.config.labels)
    ]
    lies = (lie for each in every for lie in each.mismatches)
    also = tuple(each.status for each in every[1:])
    return replace(every[0], mismatches=tuple(lies), also=also)


def _inspect(
    catalog: Catalog, image: Image, said: Mapping[str, str], reporter: Reporter
) -> Inspection:
    query = query_of(catalog, upstream_of(catalog, said))
    with (
        reporter.task(f"reading {image.reference}"),
        extracted(image, query, image.find(query)) as part,
    ):
        status = status_of(catalog, part.tree)
        mismatches = [one_line(lie) for lie in _mismatches(catalog, said, part, status)]
        claimed = said.get(names.TARGET) or (status.target if status.series else None)
        if claimed is not None and not mismatches:
            try:
                target = named_target(catalog, claimed, image.reference)
                verify(catalog, target, part.tree, series_only=True)
            except PkgtoolsError as error:
                mismatches.append(error.message)
    own = ("pkgtools.", names.OCI)
    return Inspection(
        reference=image.reference,
        id=image.id,
        digest=image.manifest_digest,
        tree=part.tree.place,
        labels={k: v for k, v in sorted(image.config.labels.items()) if k.startswith(own)},
        status=status,
        mismatches=tuple(mismatches),
        by_table=part.tree.package.by_table,
    )


def refuse_mismatches(inspection: Inspection) -> None:
    """Reject an image whose labels or receipt disagree with its files."""
    if inspection.mismatches:
        found = "; ".join(inspection.mismatches)
        raise CheckFailedError(
            f"{inspection.reference}: labels or receipt contradict the files: {found}",
            remedy="build it again from its base, or give the catalog that it was made with "
            "(--catalog)",
            details=inspection,
        )


def upstream_of(catalog: Catalog, said: Mapping[str, str]) -> Upstream:
    """Return the upstream that an image names, else the catalog's first."""
    named = [u for u in catalog.upstreams if u.name == said.get(names.UPSTREAM)]
    return [*named, *catalog.upstreams][0]


def labelled_target(catalog: Catalog, said: Mapping[str, str]) -> Target | None:
    """Return the only target that an image's labels identify, by its name or its commit.

    Labels choose a target for a user who names none; the files then decide whether they are true.
    """
    commits = {said.get(names.OCI_REVISION), *said.get(names.REVISION, "").split()}
    targets = catalog.sound_targets
    found = [t for t in targets if t.name == said.get(names.TARGET)]
    found = found or [t for t in targets if commits & {r.commit for r in t.revisions if r.commit}]
    return found[0] if len(found) == 1 else None


def named_target(catalog: Catalog, name: str, label: str) -> Target:
    """Return the target that an image names."""
    try:
        return catalog.target(name)
    except UsageError:
        raise UsageError(
            f"{label} says that it is {one_line(name)}, which {catalog.path} does not know",
            remedy="give the catalog that it was made with (--catalog), or --target",
        ) from None


def _mismatches(
    catalog: Catalog, said: Mapping[str, str], part: ExtractedPackage, status: Status
) -> Iterator[str]:
    upstream = said.get(names.UPSTREAM)
    if upstream is not None and upstream not in [u.name for u in catalog.upstreams]:
        yield f"upstream {upstream}, which the catalog does not know"
    tree = said.get(names.TREE)
    if tree is not None and tree != part.tree.place:
        yield f"tree {tree}, the package is in {part.tree.place}"
    yield from _false_revisions(catalog, said, part.tree)
    if names.TARGET not in said:
        return
    try:
        target = named_target(catalog, said[names.TARGET], part.tree.image)
    except UsageError as error:
        yield error.message
        return
    below = {entry.target: entry.series for entry in status.stack}  # of the receipt
    if target.name not in {status.target, *below}:
        yield f"target {target.name}, the files are {status.target or status.state}"
    series = said.get(names.SERIES, "none")
    found = below.get(target.name) or status.series or target.series.digest
    if series != found:
        yield f"series {series}, {'the receipt' if status.series else 'the catalog'} has {found}"
    patches = said.get(names.PATCHES, "").split()
    if series == target.series.digest and patches != [p.name for p in target.series.patches]:
        yield f"patches {' '.join(patches) or 'none'}, the series of that digest has others"


def _false_revisions(catalog: Catalog, said: Mapping[str, str], tree: ImageTree) -> Iterator[str]:
    """Yield each wrong statement of an image's labels about its revision.

    OCI's revision label may be another repository's: only commits in the catalog count.
    """
    matches = match_all(catalog.sound_targets, tree)
    stack = load_stack(tree)
    if not stack.edited(tree):  # its words are not taken for it, the files that it keeps are
        for entry in stack.entries:
            matches += match_all(catalog.sound_targets, stack.before(entry, tree))
    found = {m.revision for m in matches if m.state in (State.PRISTINE, State.PATCHED)}
    files = " or ".join(sorted(found)) or "none that the catalog knows"
    if names.REVISION in said:
        claimed = said[names.REVISION].split()
        if not claimed or not found.issuperset(claimed):
            yield f"revision {' '.join(claimed)}, the files are those of {files}"
    commit = said.get(names.OCI_REVISION)
    known = {revision.name for target in catalog.targets for revision in target.revisions}
    if commit in known - found:
        yield f"{names.OCI_REVISION} {commit}, the files are those of {files}"
