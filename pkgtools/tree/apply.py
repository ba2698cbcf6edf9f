"""Patching a tree and undoing it: each a change of the stack, in one transaction."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pkgtools.catalog import Catalog, Target
from pkgtools.errors import ForeignError, UsageError
from pkgtools.source import Source, Tree
from pkgtools.transaction import commit, locked, recover
from pkgtools.tree.adopt import adopt, renew
from pkgtools.tree.check import judge, refuse_covered, refuse_other_target
from pkgtools.tree.draft import TreeDraft
from pkgtools.tree.release import other_version
from pkgtools.tree.stack import entry_of
from pkgtools.tree.state import State, match_target, revisions_of
from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class TreeChange:
    """What a command did to a tree."""

    tree: str
    path: str
    """Where it lies."""
    target: str | None
    revisions: tuple[str, ...] = ()
    """What the tree was: more than one where their touched files are the same."""
    changed: tuple[str, ...] = ()
    """The paths that were written or removed; empty when there was nothing to do."""
    replaced: str | None = None
    """The digest of an older series that was undone in the same transaction."""
    has_receipt: bool = True
    """False for a tree that is patched, but by other means, so that it cannot be reversed."""
    recovered: str | None = None
    """What became of an earlier run that was killed: finished or undone."""
    other_version: str | None = None
    """The package's version, where it is that of another release than `revisions`."""
    requires: tuple[str, ...] = ()
    """What the target needs installed: METADATA is the package manager's, and stays."""


def apply_targets(
    catalog: Catalog, wanted: Sequence[tuple[Target, Tree]], reporter: Reporter
) -> list[TreeChange]:
    """Apply targets in order and in one transaction: all of them, or nothing.

    Each series goes on top of what is applied to its tree; an older series of the same target
    is undone. The packages can lie in different folders.
    """
    with open_drafts([tree for _, tree in wanted], reporter) as drafts:
        return [apply_to(catalog, target, drafts[tree.home]) for target, tree in wanted]


@contextlib.contextmanager
def open_drafts(trees: Sequence[Tree], reporter: Reporter) -> Iterator[Mapping[Path, TreeDraft]]:
    """Lock and recover trees, give a draft of each by its home, and write all drafts or none.

    Nothing is written where the block raises.
    """
    # Packages of one checkout share a home, and so one draft.
    by_home = {tree.home: tree for tree in trees}
    with locked(list(by_home.values()), reporter):
        recovered = {home: recover(tree) for home, tree in by_home.items()}
        drafts = {home: TreeDraft(by_home[home], recovered[home]) for home in by_home}
        yield drafts
        changes = [(draft.tree, draft.writes()) for draft in drafts.values()]
        commit([(tree, writes) for tree, writes in changes if writes])


def apply_to(catalog: Catalog, target: Target, draft: TreeDraft) -> TreeChange:
    """Apply a target in a draft; see `apply_targets`."""
    judged = judge(catalog, target, draft.applied)
    own, plan = judged.own, judged.plan
    answer = replace(
        unchanged(draft),
        target=target.name,
        revisions=judged.revisions,
        other_version=other_version(judged.revisions, draft),
    )
    if judged.is_done:
        has_receipt = any(entry.series == target.series.digest for entry in draft.stack.entries)
        if own is not None and not has_receipt:
            has_receipt = renew(catalog, target, draft, own) is not None
        return replace(answer, has_receipt=has_receipt)
    draft.stack = judged.stack
    at = None
    changed: set[str] = set()
    if own is not None:
        at = draft.stack.entries.index(own)
        changed |= own.paths
        draft.undo(own)
    if plan is not None:  # None where other means had put the new series below the old one
        if plan.changes:
            draft.do(entry_of(catalog, target, judged.revisions, draft.tree), plan, at)
        changed |= {change.path for change in plan.changes}
    return replace(
        answer,
        changed=tuple(sorted(changed)),
        replaced=own.series if own is not None and own.series != target.series.digest else None,
        has_receipt=plan is not None,
        requires=target.requires,
    )


def recover_tree(tree: Tree, reporter: Reporter) -> TreeChange:
    """Finish or undo what an earlier run was killed in."""
    with locked([tree], reporter):
        return TreeChange(tree.label, tree.place, None, recovered=recover(tree))


def unchanged(draft: TreeDraft) -> TreeChange:
    """Return the answer of a command that has nothing to do."""
    return TreeChange(draft.label, draft.tree.place, None, recovered=draft.recovered)


def adopt_target(
    catalog: Catalog, target: Target, tree: Tree, sources: Sequence[Source], reporter: Reporter
) -> TreeChange:
    """Give a receipt to a tree that is exactly what `target` makes.

    `sources` have its files as they were before.
    """
    with open_drafts([tree], reporter) as drafts:
        draft = drafts[tree.home]
        if not target.series.patches:
            raise UsageError(
                f"{target.name} has no patches yet: there is nothing to adopt",
                remedy=f"make one of your edits: pkgtools new NAME --series {target.name} "
                f"--tree {tree.root} -m TEXT",
            )
        matches = match_target(target, draft)
        if matches[0].state is not State.PATCHED:
            raise ForeignError(
                f"{tree.label} is not exactly what {target.name} makes",
                remedy=f"see why: pkgtools verify --target {target.name} --tree {tree.root}",
                details=matches[0],
            )
        refuse_other_target(catalog, target, draft)
        own = draft.stack.find(catalog, target)
        if own is None:
            adopt(catalog, target, draft, None, sources)
        elif not draft.applied.is_done(target, own):
            if left := draft.applied.held(own, matches[0], own):
                raise ForeignError(
                    f"{tree.label}: an older series of {target.name} is still in {', '.join(left)}",
                    remedy=f"replace it: pkgtools apply --target {target.name} --tree {tree.root}",
                )
            verb = f"replace the receipt of {own.target}"
            refuse_covered(draft.stack, own, target.series.paths, verb)
            adopt(catalog, target, draft, own, sources)
    revisions = revisions_of(matches, State.PATCHED)
    return replace(unchanged(draft), target=target.name, revisions=revisions)
