"""Verifying that a source is exactly what its target makes."""

from dataclasses import replace

from pkgtools.blob import Blob
from pkgtools.catalog import Catalog, Target
from pkgtools.errors import CheckFailedError, ForeignError, PkgtoolsError
from pkgtools.plan import plan_series
from pkgtools.plan.compiling import broken
from pkgtools.plan.series import plan_inverse
from pkgtools.source import Source, Tree, WheelSource
from pkgtools.source.receipt import StackEntry
from pkgtools.source.record import make_row, row_data, row_path
from pkgtools.source.requires import differing
from pkgtools.tree.check import other_release, other_target, partial_error, patched_below, port_step
from pkgtools.tree.runtime import compile_for
from pkgtools.tree.shadow import shadowed
from pkgtools.tree.stack import NOTHING_APPLIED, Stack, load_stack
from pkgtools.tree.state import Identity, State, identify, match_target
from pkgtools.tree.void import AppliedStack, edited_error
from pkgtools.tree.whole import hold_whole
from pkgtools.util.files import read_bytes


class NotPatchedError(CheckFailedError):
    """The source is a known revision without its series."""


def verify(
    catalog: Catalog, target: Target | None, source: Source, *, series_only: bool = False
) -> Identity:
    """Return what `source` is, if it is exactly what its target makes.

    Every touched file has the locked content and every touched Python file compiles. Beyond the
    series, an installed package or a wheel is what its RECORD says, a checkout what git has,
    and a commit what the target's revision is.

    Args:
        catalog: where the targets come from.
        target: what it should be; by default every series of the catalog that is in it.
        source: the patched source.
        series_only: look at the files of the series alone.
    """
    stack = load_stack(source) if isinstance(source, Tree) else NOTHING_APPLIED
    matches = _matches(catalog, target, source, stack)
    for match in matches:
        _compile_all(catalog, match, source, stack.pristine(source) if stack.entries else None)
        if isinstance(source, Tree):
            _check_record(match, source, stack)
        _refuse_modules(match, source)
        _check_requires(catalog.target(match.target), source)
    if series_only:
        return matches[-1]
    for match in matches:
        _refuse_other_release(catalog, match, source, stack)
    _refuse_edited(catalog, stack, source, matches[-1])
    touched = {file.path for match in matches for file in match.files}
    touched |= {path for entry in stack.entries for path in entry.paths}
    for match in matches:
        if isinstance(source, Tree):  # a checkout can hold several packages
            source = replace(source, upstream=catalog.target(match.target).upstream)
        hold_whole(catalog, match, source, touched)
    return matches[-1]


def _refuse_other_release(catalog: Catalog, match: Identity, source: Source, stack: Stack) -> None:
    """Raise where a source has the files of a revision, and says that it is another release."""
    target = catalog.target(match.target)
    other = other_target(catalog, target, stack.pristine(source))
    if other is None and match.by_version is not False:
        return
    version = getattr(source, "version", None)
    told = f"{other.target} ({other.revision})" if other else f"release {version}"
    step = f"verify it with --target {other.target}" if other else None
    step = step or port_step(catalog, target, source, target.name)
    raise ForeignError(
        f"{source.label} has the series of {target.name} ({match.revision}), but says that it is "
        f"{told}",
        remedy=(f"{step}; or " if step else "") + "verify the series alone with --series-only",
        details=match,
    )


def _refuse_edited(catalog: Catalog, stack: Stack, source: Source, match: Identity) -> None:
    """Raise where files that series wrote are no longer as written, nor what `match` says."""
    if isinstance(source, Tree):
        for entry, edited in AppliedStack(stack, source, source).edited(catalog, match):
            raise edited_error(entry, edited, source)


def _refuse_modules(match: Identity, source: Source) -> None:
    """Raise where an installed extension module is imported instead of a patched file."""
    if isinstance(source, Tree) and source.is_checkout:
        return
    patched = [file.path for file in match.files if file.found and file.before != file.after]
    for path, module in shadowed(source, patched).items():
        raise CheckFailedError(
            f"{source.label}: {path} is compiled into {module}, which Python imports instead",
            remedy="build and install the package from a patched source checkout",
        )


def _matches(
    catalog: Catalog, target: Target | None, source: Source, stack: Stack
) -> list[Identity]:
    """Return what a source is, an answer for each series of the catalog that is in it."""
    standing = stack.standing(source)
    own = [(e, t) for e, t in standing.owned(catalog) if target in (None, t)]
    for entry, each in own:
        if entry.series != each.series.digest:
            raise CheckFailedError(
                f"{source.label} is patched with an older series of {each.name}",
                remedy=f"replace it with `pkgtools apply --target {each.name}{_tree(source)}`",
            )
    if own:
        return [_match_in_stack(catalog, each, source, stack, entry) for entry, each in own]
    match = match_target(target, source)[0] if target else identify(catalog, source)[0]
    if not match.is_patched and target is not None:
        match = next(patched_below(target, source, standing), match)
    if match.is_patched:
        return [match]
    if target is None and not match.is_known:
        # A series that was applied and cannot be read now, or changed since its lock: without
        # this, the nearest of the other targets would be named.
        for entry in stack.entries:
            if entry.target in catalog.problems:
                raise catalog.problems[entry.target]
    if standing.entries and standing.entries[-1].target not in {t.name for t in catalog.targets}:
        raise ForeignError(
            f"{source.label} is patched with {standing.entries[-1].target}, which {catalog.path} "
            "does not know",
            remedy="give the catalog that it was patched with (--catalog)",
        )
    if match.state is State.PRISTINE:
        _refuse_edited(catalog, stack, source, match)
    raise _not_patched(catalog, match, source)


def _match_in_stack(
    catalog: Catalog, target: Target, source: Source, stack: Stack, entry: StackEntry
) -> Identity:
    """Return what a tree is without the later series; earlier ones are played again."""
    match = match_target(target, stack.at(entry, source))[0]
    if match.state is State.PATCHED:
        return match
    base = match_target(target, stack.pristine(source))[0]
    plan = plan_series(target.series.patches, stack.before(entry, source).read)
    made = {change.path: change.after.id if change.after else "" for change in plan.changes}
    if not plan.ok or made != {file.path: file.after for file in entry.files}:
        raise _not_patched(catalog, match, source)
    files = tuple(replace(file, state=State.PATCHED) for file in match.files)
    return Identity(target.name, base.revision, State.PATCHED, files, base.by_version)


def _tree(source: Source) -> str:
    return f" --tree {source.root}" if isinstance(source, Tree) else ""


def _not_patched(catalog: Catalog, match: Identity, source: Source) -> PkgtoolsError:
    name = match.target
    is_other = other_target(catalog, catalog.target(name), source) is not None
    if match.state is State.PARTIAL and not is_other:
        return partial_error(source, match)
    if match.state is State.PRISTINE and not is_other:
        return NotPatchedError(
            f"{source.label} is {name} ({match.revision}), pristine: the series is not in it",
            remedy=f"apply it with `pkgtools apply --target {name}{_tree(source)}`"
            if isinstance(source, Tree)
            else "verify a patched tree, or use --dry-run",
            details=match,
        )
    if not match.files:
        return other_release(source, match)
    best = identify(catalog, source)[0]
    if best.is_known:
        return ForeignError(
            f"{source.label} is not {name}: it is {best.target} ({best.revision}), {best.state}",
            remedy=f"verify it with --target {best.target}",
            details=match,
        )
    differing = ", ".join(
        f.path + (" (only its line endings differ)" if f.crlf else "") for f in match.differing
    )
    undo = "undo the edits if these are yours, or reinstall, or check the files out again"
    if isinstance(source, Tree):
        undo += (
            f"; take edits into the series with `pkgtools refresh --series {name}{_tree(source)}`"
        )
    return ForeignError(
        f"{source.label} is not what {name} makes; these files differ: {differing}",
        remedy=port_step(catalog, catalog.target(name), source, name) or undo,
        details=match,
    )


def _compile_all(
    catalog: Catalog, match: Identity, source: Source, before: Source | None = None
) -> None:
    """Raise where a touched file does not compile, but for one that did not before either."""
    patches = catalog.target(match.target).series.patches

    def was(path: str) -> Blob | None:
        if before is not None:
            return before.read(path)
        return plan_inverse(patches, source.read).get(path)  # no receipt: read them backwards

    after = {file.path: source.read(file.path) for file in match.files}
    for path, error in broken(after, was, compile_for(source)).items():
        raise CheckFailedError(
            f"{source.label}: {path} does not compile: {error}",
            remedy="correct the patch, or give the Python that the package is for (--python)",
        )


def _check_record(match: Identity, tree: Tree, stack: Stack) -> None:
    """Raise unless RECORD has the right row for each touched file.

    Where the tree was edited into what the series makes, `adopt` writes the rows.
    """
    if tree.record is None:
        return
    rows = {row_path(row): row.strip() for row in read_bytes(tree.record).splitlines()}
    for file in match.files:
        name, blob = tree.name(file.path), tree.read(file.path)
        if rows.get(name) != (make_row(name, row_data(blob)).strip() if blob else None):
            own = [entry for entry in stack.entries if entry.target == match.target]
            adopt = f"`pkgtools adopt --target {match.target} --tree {tree.root}`"
            raise CheckFailedError(
                f"{tree.record} has another row for {name} than the file: an upgrade or uninstall "
                "would leave it behind",
                remedy=f"write them and a receipt: {adopt}"
                if all(stack.drifted(entry, tree) for entry in own)
                else "reinstall the package and apply with `pkgtools apply`",
            )


def _check_requires(target: Target, source: Source) -> None:
    """Raise unless METADATA has the requirements of a target.

    A tree that `apply` patched keeps the METADATA of its package manager.
    """
    if not target.requires:
        return
    if isinstance(source, WheelSource):
        metadata = source.metadata
    elif isinstance(source, Tree) and source.dist_info and source.is_from_patched_wheel:
        metadata = read_bytes(source.dist_info / "METADATA")
    else:
        return
    wrong = differing(metadata, target.requires)
    if wrong:
        raise CheckFailedError(
            f"{source.label}: METADATA does not have the requirement {', '.join(wrong)} of "
            f"{target.name}",
            remedy=f"build the wheel again: `pkgtools build wheel --target {target.name}`",
        )
