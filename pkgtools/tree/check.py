"""Whether a target's series applies to a source: what `verify --dry-run` and `apply` share."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from packaging.version import Version

from pkgtools.catalog import Catalog, Target
from pkgtools.catalog.marker import holds, variables_of
from pkgtools.errors import (
    DoesNotApplyError,
    ForeignError,
    MalformedError,
    PartialError,
    PkgtoolsError,
)
from pkgtools.plan import Plan, Rejection, plan_series
from pkgtools.plan.compiling import broken_by
from pkgtools.source import Source, Tree, WheelSource
from pkgtools.source.receipt import PatchedFile, StackEntry
from pkgtools.source.wheel import all_outside_named
from pkgtools.tree.release import checkout_of, is_release, said
from pkgtools.tree.runtime import compile_for
from pkgtools.tree.shadow import refuse_shadowed
from pkgtools.tree.stack import NOTHING_APPLIED, Stack, entry_of, is_unnamed
from pkgtools.tree.state import Identity, State, entry_id, match_all, match_target, revisions_of
from pkgtools.tree.void import AppliedStack


@dataclass(frozen=True)
class Refusal:
    """Why a series does not apply to a source."""

    target: str
    source: str
    nearest: Identity | None
    """The known revision that the source is, or resembles most."""
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True)
class Judgement:
    """What applying a target does to a tree."""

    revisions: tuple[str, ...]
    stack: Stack
    """What is applied to it, void receipts apart."""
    own: StackEntry | None
    """The target's own entry: to undo first, unless `is_done`."""
    plan: Plan | None
    """None where the source is patched already."""
    is_done: bool = False
    """Whether the tree is what the target makes."""


def judge(catalog: Catalog, target: Target, here: AppliedStack) -> Judgement:
    """Decide what `apply` does to a tree, which `verify --dry-run` says."""
    source, stack = here.source, here.stack
    refuse_unfit(target, here.tree)
    refuse_other_target(catalog, target, stack.pristine(source))
    own = stack.find(catalog, target)
    if own is not None and here.is_done(target, own):
        return Judgement(tuple(own.revisions), stack, own, None, is_done=True)
    matches = match_target(target, source)
    if here.is_made(matches[0], own):
        return Judgement(revisions_of(matches, State.PATCHED), stack, own, None, is_done=True)
    stack, before = here.settled(target, matches[0], own), source
    if own is None and (left := matches[0].left_behind):
        entry = entry_of(catalog, target, (), here.tree)
        files = [PatchedFile(file.path, file.found.rpartition(":")[2]) for file in left]
        stack = Stack((*stack.entries, replace(entry, files=files)), stack.record)
    own = stack.find(catalog, target)
    if own is not None:
        refuse_covered(stack, own, target.series.paths, f"replace {own.target} in it")
        before = stack.before(own, source)  # the draft still has its result
    revisions, plan = check(catalog, target, before, stack)
    if plan is not None:
        refuse_shadowed(target, here.tree, plan)
    return Judgement(revisions, stack, own, plan)


def check(
    catalog: Catalog, target: Target, source: Source, stack: Stack = NOTHING_APPLIED
) -> tuple[tuple[str, ...], Plan | None]:
    """Hold `source` against the target's lockfile and plan its series on it.

    Where the series in `stack` changed the same files, the source without them has to be the
    target's revision, and the series has to apply exactly to what they made.

    Returns:
        Every revision of the target that the source is (their touched files are the
        same), and the plan; None where the source is patched already.
    """
    with all_outside_named(source, target.series.paths):
        matches = match_target(target, source)
    match = matches[0]
    if match.state is State.PATCHED:
        return revisions_of(matches, match.state), None
    plan = plan_series(target.series.patches, source.read)
    if match.state is State.PRISTINE:
        _hold_against_lock(target, match, plan)
        refuse_broken(target, source, plan)
        return revisions_of(matches, match.state), plan
    beneath = [e for e in stack.entries if e.paths.intersection(target.series.paths)]
    if below := tuple(match.revision for match in patched_below(target, source, stack)):
        return below, None
    if beneath:
        base = stack.pristine(source)
        bases = match_target(target, base)
        if bases[0].state is State.PRISTINE:
            _refuse_stacking(catalog, target, source, beneath, plan)
            return revisions_of(bases, State.PRISTINE), plan
        source, match = base, bases[0]  # nor is it the target's without them: say so of that
        plan = plan_series(target.series.patches, source.read)
    raise _stranger(catalog, target, source, match, plan)


def patched_below(target: Target, source: Source, stack: Stack) -> Iterator[Identity]:
    """Yield what a source is without later series that changed the same files, if it is patched.

    Another means than `apply` patched it, so the stack does not have the target.
    """
    for entry in reversed(stack.entries):
        if entry.paths.intersection(target.series.paths):
            matches = match_target(target, stack.before(entry, source))
            yield from (each for each in matches if each.state is State.PATCHED)


def refuse_covered(stack: Stack, entry: StackEntry, paths: Iterable[str], verb: str) -> None:
    """Raise where later entries changed the same files."""
    for later, shared in stack.covering(entry, paths).items():
        raise DoesNotApplyError(
            f"cannot {verb}: {later} was applied later and changes {', '.join(shared)}",
            remedy=f"take it out first: pkgtools reverse --target {later}",
        )


def refuse_other_target(catalog: Catalog, target: Target, source: Source) -> None:
    """Raise where a source has the files of two targets, and says that it is the other one."""
    if (other := other_target(catalog, target, source)) is not None:
        raise _is_other(target, source, Refusal(target.name, source.label, other, ()), other)


def other_target(catalog: Catalog, target: Target, source: Source) -> Identity | None:
    """Return what a source says that it is, where its files are those of `target` too."""
    version = getattr(source, "version", None)
    told = {is_release(version, each.version) for each in target.revisions}
    if True in told or (False not in told and checkout_of(source) is None):
        return None  # before any file is read
    with all_outside_named(source, target.series.paths):
        mine = [match for match in match_target(target, source) if match.is_known]
    if not mine:
        return None
    others = (t for t in catalog.sound_targets if t.upstream == target.upstream and t != target)
    known = [match for match in match_all(others, source) if match.is_known]
    kept = said(catalog, [*mine, *known], source)
    return None if target.name in {match.target for match in kept} else kept[0]


def refuse_unfit(target: Target, source: Tree | WheelSource) -> None:
    """Refuse a source that is not known to be for an environment that a target is for."""
    if target.marker is None or holds(target.marker, source.environment):
        return
    known = source.environment
    facts = (f"{name} {known.get(name, 'unknown')}" for name in sorted(variables_of(target.marker)))
    raise DoesNotApplyError(
        f"{target.name} is for {target.marker}, and {source.label} has {', '.join(facts)}",
        remedy=f"name another target of {target.upstream.name} {target.revision.name} "
        "(pkgtools targets)",
    )


def refuse_broken(target: Target, source: Source, plan: Plan) -> None:
    """Raise where code compiled before and does not after the series."""
    for change, error in broken_by(plan, compile_for(source)):
        names = " and ".join(change.patches)
        raise DoesNotApplyError(
            f"{target.name}: {change.path} of {source.label} compiles, and does not after "
            f"{names}: {error}"
            if change.before
            else f"{target.name}: {change.path}, which {names} adds, does not compile: {error}",
            remedy=f"correct the patch, then run `pkgtools lock --target {target.name}`",
        )


def _refuse_stacking(
    catalog: Catalog, target: Target, source: Source, beneath: Sequence[StackEntry], plan: Plan
) -> None:
    """Raise unless a series goes on top of those that changed the same files."""
    if plan.ok:
        for change, error in broken_by(plan, compile_for(source)):
            raise DoesNotApplyError(
                f"{target.name} does not fit on the series in {source.label}: "
                f"{change.path} does not compile any more: {error}",
                remedy="make one series of both",
            )
        return
    names = " and ".join(
        f"another catalog's {entry.target}" if entry.target == target.name else entry.target
        for entry in beneath
    )
    top = beneath[-1]
    remedy = f"take {top.target} out first (pkgtools reverse --target {top.target}), or "
    if top.target == target.name and is_unnamed(top):
        named = "" if catalog.name else f"write a name at the top of {catalog.path} (name = ...), "
        remedy = (
            f"if {top.target} is of this catalog, in another folder then: {named}take it out "
            f"once (pkgtools reverse --target {top.target}), and apply again; else "
        )
    raise DoesNotApplyError(
        f"{target.name} does not apply on top of {names} in {source.label}",
        remedy=f"{remedy}make one series of both",
        details=Refusal(target.name, source.label, None, plan.rejections),
    )


def _stranger(
    catalog: Catalog, target: Target, source: Source, match: Identity, plan: Plan
) -> PkgtoolsError:
    """Return the refusal of a source that is not a revision of the target."""
    if match.state is State.PARTIAL:
        refusal = Refusal(target.name, source.label, match, plan.rejections)
        return partial_error(source, match, refusal)
    if (unproven := _unproven(catalog, target, source)) is not None:
        return unproven
    others = [t for t in catalog.sound_targets if t.upstream == target.upstream and t != target]
    found = match_all(others, source)
    told = said(catalog, [each for each in found if each.is_known], source)
    nearest = min(
        [match, *(told or found)[:1]], key=lambda each: (not each.is_known, each.distance)
    )
    refusal = Refusal(target.name, source.label, nearest, plan.rejections)
    if nearest.is_known:
        return _is_other(target, source, refusal, nearest)
    if not nearest.files:
        return other_release(source, nearest)
    differing = ", ".join(f.path for f in nearest.differing)
    if all(f.crlf for f in nearest.differing):
        return ForeignError(
            f"{source.label} would be {nearest.target} ({nearest.revision}), but these files have "
            f"CRLF line ends: {differing}",
            remedy="convert them to LF (in a git checkout: git config core.autocrlf false, and "
            "check them out again)",
            details=Refusal(target.name, source.label, nearest, ()),
        )
    fits = " (every hunk would apply to it)" if plan.ok else ""
    unread = [name for name in catalog.problems if catalog.target(name).upstream == target.upstream]
    return ForeignError(
        f"{source.label} is not a revision that the catalog knows{fits}; nearest is "
        f"{nearest.target} ({nearest.revision}), from which these files differ: {differing}"
        + (f"; it was not compared with {', '.join(unread)}" if unread else ""),
        remedy=port_step(catalog, target, source, nearest.target)
        or ("see what was not compared: `pkgtools targets`; " if unread else "")
        + "undo the edits if these are yours; if it is a new upstream revision, add it to "
        f"{catalog.path} and prove the series on it with `pkgtools lock`",
        details=refusal,
    )


def _unproven(catalog: Catalog, target: Target, source: Source) -> ForeignError | None:
    """Return the refusal of a release whose own target cannot be compared with it."""
    version = getattr(source, "version", None)
    for name, problem in catalog.problems.items():
        other = catalog.target(name)
        told = (is_release(version, revision.version) for revision in other.revisions)
        if other.upstream == target.upstream and any(told):
            return ForeignError(
                f"{source.label} is {name} by its version: {problem.message}",
                remedy=problem.remedy,
            )
    return None


def _is_other(
    target: Target, source: Source, refusal: Refusal, other: Identity
) -> DoesNotApplyError:
    return DoesNotApplyError(
        f"{target.name} does not apply: {source.label} is {other.target} ({other.revision}), "
        f"{other.state}",
        remedy=f"use --target {other.target}"
        if other.state is State.PRISTINE
        else f"give an unpatched tree or wheel, or use --target {other.target}",
        details=refusal,
    )


def partial_error(source: Source, match: Identity, refusal: Refusal | None = None) -> PartialError:
    """Return the refusal of a source that has some of a series."""
    held = ", ".join(f"{file.path} ({file.state})" for file in match.files)
    return PartialError(
        f"{source.label} holds some of {match.target}: {held}",
        remedy=f"apply it again: pkgtools apply --target {match.target} --tree {source.root}"
        if match.left_behind and isinstance(source, Tree)
        else "reinstall the package, or check its files out again, and apply to that",
        details=refusal or match,
    )


def port_step(catalog: Catalog, target: Target, source: Source, nearest: str) -> str | None:
    """Return the next step for a release that no target of the upstream has, else None."""
    version = getattr(source, "version", None)
    revisions = (r for t in catalog.targets if t.upstream == target.upstream for r in t.revisions)
    told = {is_release(version, each.version) for each in revisions}
    if version is None or True in told or False not in told:
        return None
    return (
        f"make a series for it: `pkgtools port --series {nearest} --to {Version(version).public}`"
    )


def other_release(source: Source, match: Identity) -> ForeignError:
    """Return the refusal of a source whose version alone says that it is another release."""
    version = getattr(source, "version", None)
    return ForeignError(
        f"{source.label} is not {match.target} ({match.revision}): its version is {version}",
        remedy=f"make a series for it: pkgtools port --series {match.target} --to {version}",
        details=match,
    )


def _hold_against_lock(target: Target, match: Identity, plan: Plan) -> None:
    made = {c.path: entry_id(c.after, with_mode=c.sets_mode) for c in plan.changes}
    promised = {f.path: f.after for f in match.files}
    if plan.ok and made == promised:
        return
    wrong = sorted(path for path in {*made, *promised} if made.get(path) != promised.get(path))
    raise MalformedError(
        f"{target.lock_path} is wrong: the series makes other content of {', '.join(wrong)}",
        remedy=f"prove it again with `pkgtools lock --target {target.name}`",
    )
