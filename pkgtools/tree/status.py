"""The status of a tree: what it is and which series are applied to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pkgtools.catalog import Catalog, Target
from pkgtools.errors import PkgtoolsError
from pkgtools.source import Tree
from pkgtools.source.receipt import StackEntry
from pkgtools.transaction.journal import load_journal
from pkgtools.tree.check import judge
from pkgtools.tree.choose import target_of
from pkgtools.tree.shadow import shadowed
from pkgtools.tree.stack import Stack, is_unnamed, load_stack
from pkgtools.tree.state import FileState, State, identify
from pkgtools.tree.void import AppliedStack


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
    if (standing := stack.standing(tree)).entries:
        stack = standing
    interrupted = load_journal(tree.home) is not None
    applied = tuple(_applied(catalog, tree, stack, entry) for entry in stack.entries)
    edited = tuple(stack.edited(tree))
    stands = bool(applied) and not edited
    # A stack that stands says what the tree is; otherwise the files do.
    found = identify(catalog, tree) if not stands else ()
    known = [each for each in found if each.is_known]
    state, is_void = found[0].state if found else State.PATCHED, False
    if edited and state in (State.PRISTINE, State.PATCHED):
        here = AppliedStack(stack, tree, tree)
        is_void = any(not any(here.edited(catalog, match)) for match in found)
        state = state if is_void else State.FOREIGN
    top = applied[-1] if applied and not is_void else None
    revisions = (each.revision for each in known)  # two targets can have one
    written = {file.path for entry in stack.entries for file in entry.files if file.after}
    return Status(
        tree=tree.label,
        path=tree.place,
        state=state,
        target=top.target if top else known[0].target if known else None,
        revisions=top.revisions if top and stands else tuple(dict.fromkeys(revisions)),
        files=tuple(_files(catalog, tree, stack)) if stands else found[0].files,
        interrupted=interrupted,
        series=top.series if top else None,
        pkgtools=top.pkgtools if top else None,
        is_current=top is not None and top.is_current,
        edited=edited if top else (),
        receipt_is_void=is_void,
        from_wheel=not stands and tree.is_from_patched_wheel,
        shadowed=shadowed(tree, sorted(written)) if stands else {},
        stack=applied,
    )


def refusal_of(catalog: Catalog, tree: Tree) -> PkgtoolsError | None:
    """Return the error that `apply` without a target would raise, if any."""
    try:
        target, _ = target_of(catalog, [tree])
        judge(catalog, target, AppliedStack(load_stack(tree), tree, tree))
    except PkgtoolsError as error:
        return error
    return None


def _applied(catalog: Catalog, tree: Tree, stack: Stack, entry: StackEntry) -> AppliedSeries:
    target = _target(catalog, stack, entry)
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


def _target(catalog: Catalog, stack: Stack, entry: StackEntry) -> Target | None:
    return next((target for each, target in stack.owned(catalog) if each is entry), None)


def _files(catalog: Catalog, tree: Tree, stack: Stack) -> list[FileState]:
    """Return the state of every file that the stack changed."""
    files: dict[str, FileState] = {}
    for entry in stack.entries:
        target = _target(catalog, stack, entry)
        is_current = target is not None and target.series.digest == entry.series
        patches = target.series.patches if target is not None and is_current else ()
        for file in entry.files:
            before, found = file.before(), tree.read(file.path)
            earlier = files.get(file.path)
            files[file.path] = FileState(
                path=file.path,
                state=State.PATCHED,
                found=found.id if found else "",
                before=earlier.before if earlier else before.id if before else "",
                after=file.after,
                patches=(
                    *(earlier.patches if earlier else ()),
                    *(patch.name for patch in patches if file.path in patch.paths),
                ),
            )
    return [files[path] for path in sorted(files)]
