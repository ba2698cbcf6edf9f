"""The text of a pull request for an upgrade, in Markdown."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from pkgtools.authoring.export import cell
from pkgtools.port.model import HunkOutcome, HunkReport, PatchReport, StepReport
from pkgtools.port.upgrade import Upgrade
from pkgtools.port.work import PortReport

_DECIDED = (HunkOutcome.CONFLICT, HunkOutcome.BLOCKED)


def title(upgrade: Upgrade) -> str:
    """Return the title: package and release."""
    return f"{upgrade.start.upstream.distribution} {upgrade.version}"


def text(upgrade: Upgrade, page: str) -> str:
    """Return the text.

    Args:
        upgrade: what was done.
        page: the URL of the release.

    """
    name = upgrade.target.name if upgrade.target else f"v{upgrade.version}"
    parts = [
        f"The series of `{upgrade.start.name}` on [{title(upgrade)}]({page}), as target `{name}`."
    ]
    if upgrade.port is not None:
        parts += _ported(upgrade.port)
    if tasks := [f"- [ ] {task}" for task in _tasks(upgrade)]:
        parts += ["## For a person", "\n".join(tasks)]
    parts += _proofs(upgrade)
    return "\n\n".join(parts) + "\n"


def _ported(report: PortReport) -> Iterator[str]:
    for start, step in _spans(report):
        yield f"## {_source(start)} to {_source(step.theirs)}"
        rows = [f"| {_code(p.patch)} | {p.outcome} | {_counts(p)} |" for p in step.patches]
        yield "\n".join(["| patch | outcome | hunks |", "|---|---|---|", *rows])
        for kind, heading in (
            (HunkOutcome.MERGED, "Merged, with the rule"),
            (HunkOutcome.ABSORBED, "Absorbed: upstream has it"),
            (HunkOutcome.EMPTY, "Empty: nothing is left, and upstream does not have it"),
        ):
            found = [line for p in step.patches for line in _hunks(p, kind)]
            if found:
                yield f"{heading}:\n\n" + "\n".join(found)


def _spans(report: PortReport) -> Iterator[tuple[str, StepReport]]:
    """Yield each step with its start, and steps that change no patch as one."""
    for is_unchanged, group in groupby(report.steps, _is_unchanged):
        steps = list(group)
        if is_unchanged:
            yield steps[0].base, steps[-1]
        else:
            yield from ((step.base, step) for step in steps)


def _is_unchanged(step: StepReport) -> bool:
    return all(patch.outcome is HunkOutcome.UNCHANGED for patch in step.patches)


def _counts(patch: PatchReport) -> str:
    counts = Counter(hunk.outcome for hunk in patch.hunks)
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items())


def _hunks(patch: PatchReport, outcome: HunkOutcome) -> Iterator[str]:
    for hunk in patch.hunks:
        if hunk.outcome is outcome:
            yield f"- {_code(patch.patch)}, {_place(hunk)}{_reason(hunk)}"


def _place(hunk: HunkReport) -> str:
    place = f"{hunk.path}:{hunk.line}" if hunk.line else hunk.path
    return f"{_code(place)} (now {_code(hunk.to)})" if hunk.to else _code(place)


def _reason(hunk: HunkReport) -> str:
    if hunk.absorbed_by:
        return ": " + ", ".join(_code(place) for place in hunk.absorbed_by)
    said = hunk.reason if hunk.outcome in _DECIDED or not hunk.rules else None
    return f": {cell(said or ', '.join(hunk.rules))}" if said or hunk.rules else ""


def _tasks(upgrade: Upgrade) -> Iterator[str]:
    report = upgrade.port
    hunks = [
        (patch, hunk)
        for step in (report.steps if report else ())
        for patch in step.patches
        for hunk in patch.hunks
    ]
    for patch, hunk in hunks:
        if hunk.outcome in _DECIDED:
            task = f"decide {_code(patch.patch)}, {_place(hunk)}{_reason(hunk)}"
            yield task + _proposal(hunk)
        elif hunk.drops:
            yield f"see that the change of {_code(patch.patch)} at {_place(hunk)} can go"
    if any(hunk.proposal for _, hunk in hunks):
        yield "take the proposals that are right: `pkgtools upgrade --accept [FILE]`"
    if report is not None and report.conflicts:
        yield (
            f"run `pkgtools upgrade --target {upgrade.start.name}`, edit the files in "
            f"`{Path(report.output).name}.port/conflicts`, and run it again"
        )
    if any(hunk.outcome is HunkOutcome.MERGED for _, hunk in hunks):
        yield "look at each merged place: a merge by rule is a proposal"
    if report is not None:
        for name in report.copied:
            yield f"correct {_code(name)}: it is a copy of the old series'"
        for name in report.dropped:
            why = "absorbed" if report.absorbed else "absorbed or empty"
            yield f"see that {_code(name)} can go: it is {why}"
    if upgrade.is_default and upgrade.target not in (None, upgrade.start):
        yield (
            f"set `default` in targets.toml: it is `{upgrade.start.name}`, and `pkgtools build` "
            "takes it without --target"
        )
    for run in upgrade.checks:
        if run.status != 0:
            yield f"find out why {_code(run.command)} fails after {_code(run.patch)}"


def _proposal(hunk: HunkReport) -> str:
    """Return a proposal as a code block inside of an item of a list."""
    if hunk.proposal is None:
        return ""
    lines = "\n".join(f"      {line}".rstrip() for line in hunk.proposal.text.splitlines())
    return f"; proposal {hunk.proposal.number} ({hunk.proposal.rule}{hunk.lost}):\n\n{lines}"


def _proofs(upgrade: Upgrade) -> Iterator[str]:
    target = upgrade.target
    if target is None:
        return
    yield "## Checks"
    locked = target.lock.find(target.revision.name)
    lines = [
        f"- passed: every hunk applies exactly to `{wheel.name}` (sha256 `{wheel.sha256}`)"
        for wheel in (locked.wheel if locked else ())
    ] or [f"- passed: every hunk applies exactly to {_code(target.revision.name)}"]
    for command in dict.fromkeys(run.command for run in upgrade.checks):
        runs = [run for run in upgrade.checks if run.command == command]
        failed = [f"{_code(run.patch)} ({run.status})" for run in runs if run.status != 0]
        after = f"failed after {', '.join(failed)}" if failed else "passed"
        lines.append(f"- {after}: {_code(command)} ran after each of {len(runs)} patches")
    yield "\n".join(lines)
    for run in upgrade.checks:
        if run.output:
            yield "\n".join(f"    {line}".rstrip() for line in run.output.splitlines())


def _source(name: str) -> str:
    return cell(Path(name).name)


def _code(text: str) -> str:
    """Return a name as code, so that its characters are not Markdown."""
    safe = " ".join(text.replace("`", "'").replace("|", "\\|").split())
    return f"`{safe}`"
