"""What a tree is and what is applied to it, said without touching it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pkgtools.catalog import Catalog, Target
from pkgtools.source import Tree
from pkgtools.source.receipt import PROVENANCE, StackEntry
from pkgtools.transaction.journal import load_journal
from pkgtools.tree.held import AppliedStack
from pkgtools.tree.identify import identify
from pkgtools.tree.shadow import shadowed
from pkgtools.tree.stack import Stack, is_of, is_unnamed, load_stack
from pkgtools.tree.state import FileState, Identity, State


@dataclass(frozen=True)
class AppliedSeries:
    """One entry of the stack."""

    tree: str
    """The package that it is applied to."""
    catalog: str | None
    """The name of the catalog that it came from, if that has one."""
    is_own: bool
    """Whether it is of a target of the catalog at hand."""
    upstream: str
    target: str
    revisions: tuple[str, ...]
    series: str
    """The digest."""
    patches: tuple[str, ...]
    pkgtools: str
    """The version of the tool that applied it."""
    is_current: bool
    """Whether the catalog's series of that target is the one in the tree."""
    edited: tuple[str, ...]
    """Files that were edited since."""


@dataclass(frozen=True)
class Status:
    """What a tree is, and what its receipt says."""

    tree: str
    path: str
    """Where it lies; in an image, the folder there."""
    state: State
    target: str | None
    """Of several that are applied, the top."""
    revisions: tuple[str, ...]
    """More than one where their touched files are the same."""
    files: tuple[FileState, ...]
    interrupted: bool
    """Whether an earlier run was killed, so that `recover` has something to do."""
    series: str | None = None
    """The digest of the series in the tree, as the receipt has it."""
    pkgtools: str | None = None
    """The version of the tool that applied it; None without a receipt."""
    is_current: bool = False
    """Whether the catalog's series of that target is the one in the tree."""
    edited: tuple[str, ...] = ()
    """Patched files that were edited since."""
    receipt_is_void: bool = False
    """Whether the files were replaced by a known revision's since they were patched."""
    from_wheel: bool = False
    """Whether the package was installed from a wheel that `build wheel` made."""
    shadowed: Mapping[str, str] = field(default_factory=dict)
    """The extension module that Python imports instead of a patched file, by the file's path."""
    stack: tuple[AppliedSeries, ...] = ()
    """Everything that is applied, the first at the bottom."""


def status_of(catalog: Catalog, tree: Tree) -> Status:
    """Return what a tree is and what is applied to it."""
    stack = load_stack(tree)
    interrupted = load_journal(tree.home) is not None
    applied = tuple(_applied(catalog, tree, stack, entry) for entry in stack.entries)
    edited = tuple(stack.edited(tree))
    if applied and not edited:
        last = applied[-1]
        paths = {file.path for entry in stack.entries for file in entry.files if file.after}
        return Status(
            tree=tree.label,
            path=tree.place,
            state=State.PATCHED,
            target=last.target,
            revisions=last.revisions,
            files=tuple(_files(catalog, tree, stack)),
            interrupted=interrupted,
            series=last.series,
            pkgtools=last.pkgtools,
            is_current=last.is_current,
            shadowed=shadowed(tree, sorted(paths)),
            stack=applied,
        )
    found = identify(catalog, tree)
    best = found[0]
    state, void = best.state, False
    if edited and state in (State.PRISTINE, State.PATCHED):
        void = any(_is_void(catalog, tree, stack, match) for match in found)
        state = state if void else State.FOREIGN
    top = applied[-1] if applied and not void else None
    return Status(
        tree=tree.label,
        path=tree.place,
        state=state,
        target=top.target if top else best.target if best.is_known else None,
        revisions=tuple(each.revision for each in found) if best.is_known else (),
        files=best.files,
        interrupted=interrupted,
        series=top.series if top else None,
        pkgtools=top.pkgtools if top else None,
        is_current=top is not None and top.is_current,
        edited=edited if top else (),
        receipt_is_void=void,
        from_wheel=tree.dist_info is not None and (tree.dist_info / PROVENANCE).is_file(),
        stack=applied,
    )


def _is_void(catalog: Catalog, tree: Tree, stack: Stack, match: Identity) -> bool:
    """Whether every entry that does not stand is void where the tree is what `match` says."""
    own = stack.find(catalog, catalog.target(match.target))
    return not any(
        AppliedStack(stack, tree, tree).held(entry, match, own)
        for entry in stack.entries
        if stack.drifted(entry, tree)
    )


def _applied(catalog: Catalog, tree: Tree, stack: Stack, entry: StackEntry) -> AppliedSeries:
    target = _target(catalog, entry)
    return AppliedSeries(
        tree=tree.label,
        catalog=None if is_unnamed(entry) else entry.catalog,
        is_own=target is not None,
        upstream=entry.upstream,
        target=entry.target,
        revisions=tuple(entry.revisions),
        series=entry.series,
        patches=tuple(entry.patches),
        pkgtools=entry.pkgtools,
        is_current=target is not None and target.series.digest == entry.series,
        edited=tuple(stack.drifted(entry, tree)),
    )


def _target(catalog: Catalog, entry: StackEntry) -> Target | None:
    """Return the target of this catalog that an entry is of."""
    return next((t for t in catalog.sound_targets if is_of(entry, catalog, t)), None)


def _files(catalog: Catalog, tree: Tree, stack: Stack) -> list[FileState]:
    """Return the state of every file that the stack changed."""
    files: dict[str, FileState] = {}
    for entry in stack.entries:
        target = _target(catalog, entry)
        current = target is not None and target.series.digest == entry.series
        for file in entry.files:
            before, found = file.before(), tree.read(file.path)
            held = (
                [p.name for p in target.series.patches if file.path in p.paths]
                if (current and target)
                else []
            )
            earlier = files.get(file.path)
            files[file.path] = FileState(
                path=file.path,
                state=State.PATCHED,
                found=found.id if found else "",
                before=earlier.before if earlier else before.id if before else "",
                after=file.after,
                patches=(*(earlier.patches if earlier else ()), *held),
            )
    return [files[path] for path in sorted(files)]
