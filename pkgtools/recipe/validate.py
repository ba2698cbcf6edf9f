"""Validation of a deployment: steps in order, evidence of each, a stop at the first that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkgtools.catalog import Catalog, Target
from pkgtools.errors import CheckFailedError, Evidence, PkgtoolsError, TreeError
from pkgtools.recipe.artifacts import check_dataset, check_draft, check_model
from pkgtools.recipe.live import check_sample, check_server, check_store
from pkgtools.recipe.load import Loaded
from pkgtools.recipe.plan import RuleOutcome, check_plan, require_site
from pkgtools.recipe.update import check_update
from pkgtools.source import Source
from pkgtools.transaction import reading
from pkgtools.tree.dry_run import Outcome, dry_run_source
from pkgtools.tree.state import State
from pkgtools.tree.verify import verify
from pkgtools.util.files import sha256
from pkgtools.util.progress import Reporter

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from pkgtools.image.inspect import Inspection


@dataclass(frozen=True)
class Deployment:
    """What the steps check."""

    loaded: Loaded
    catalog: Catalog
    open_source: Callable[[], Source] | None
    """Return the tree that the server runs from; None where the recipe's image is meant."""
    python: str
    """The interpreter that has Mooncake."""
    reporter: Reporter


@dataclass(frozen=True)
class StepResult:
    """The result of one step."""

    step: str
    passed: bool
    evidence: DataclassInstance | Evidence | None
    message: str | None = None
    remedy: str | None = None


@dataclass
class Validation:
    """The evidence of a validation, for `--report` and `--json`."""

    recipe: str
    files: dict[str, str]
    """SHA-256 of the recipe and the site file, by path."""
    up_to: str
    steps: list[StepResult] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """The steps that have yet to pass, up to the one that was asked for."""
    passed: bool = False


def validate(deployment: Deployment, up_to: str) -> Validation:
    """Run the steps in order up to one, and stop at the first that fails."""
    loaded = deployment.loaded
    names = list(STEPS)
    wanted = names[: names.index(up_to) + 1]
    files = {str(file.path): sha256(file.path) for file in loaded.files}
    found = Validation(loaded.recipe.name, files, up_to, left=list(wanted))
    for name in wanted:
        try:
            task, check = STEPS[name]
            with deployment.reporter.task(f"{name}: {task}"):
                evidence = check(deployment)
        except (PkgtoolsError, OSError) as error:
            failed = TreeError.of(error) if isinstance(error, OSError) else error
            found.steps.append(
                StepResult(name, False, failed.details, failed.message, failed.remedy)
            )
            break
        found.steps.append(StepResult(name, True, evidence))
        found.left.remove(name)
    found.passed = not found.left
    return found


def _plan(deployment: Deployment) -> Evidence:
    require_site(deployment.loaded.recipe)
    findings = check_plan(deployment.loaded)
    broken = [f for f in findings if f.outcome is not RuleOutcome.OK]
    if broken:
        told = "; ".join(f"{f.rule}: {f.found}: {f.computed}" for f in broken)
        raise CheckFailedError(
            f"{deployment.loaded.recipe.name}: the plan breaks a rule: {told}",
            remedy="see `pkgtools recipe check`",
            details=Evidence(findings=findings),
        )
    return Evidence(findings=findings)


def _patches(deployment: Deployment) -> Evidence | Inspection:
    """Check that the series applies to the tree, or is in it exactly."""
    catalog = deployment.catalog
    target = catalog.target(deployment.loaded.recipe.target)
    if deployment.open_source is None:
        return _image(deployment, target)
    source = deployment.open_source()
    with reading([source], deployment.reporter):
        found = dry_run_source(catalog, target, source)
        if found.outcome is Outcome.REFUSED:
            raise CheckFailedError(str(found.message), remedy=found.remedy, details=found)
        if found.outcome is Outcome.PATCHED:
            verify(catalog, target, source)
    return Evidence(
        source=found.source,
        target=found.target,
        revision=found.revision,
        state=found.outcome,
        series=target.series.digest,
    )


def _image(deployment: Deployment, target: Target) -> Inspection:
    """Check that the recipe's image is the patched target, by its files and labels."""
    from pkgtools.image.inspect import inspect_image, refuse_mismatches  # noqa: PLC0415 - only asked for
    from pkgtools.image.reference import open_image  # noqa: PLC0415

    with open_image(str(deployment.loaded.recipe.image)) as image:
        found = inspect_image(deployment.catalog, image, deployment.reporter)
    refuse_mismatches(found)
    status = found.status
    if (status.state, status.target) != (State.PATCHED, target.name):
        raise CheckFailedError(
            f"{found.reference} is {status.target or 'no target'}, {status.state}; it should be "
            f"{target.name}, patched",
            remedy=f"build it with `pkgtools build image --target {target.name}`",
            details=found,
        )
    return found


def _artifacts(deployment: Deployment) -> Evidence:
    recipe = deployment.loaded.recipe
    evidence = Evidence(model=check_model(recipe.model), dataset=check_dataset(recipe.dataset))
    if recipe.draft is not None:
        evidence["draft"] = check_draft(recipe.draft)
    return evidence


def _update(deployment: Deployment) -> Evidence:
    trainer = deployment.loaded.recipe.trainer
    return check_update(Path(str(trainer.output)), trainer.ranks, deployment.python)


STEPS: Final[dict[str, tuple[str, Callable[[Deployment], Evidence | Inspection]]]] = {
    "plan": ("the rules", _plan),
    "patches": ("the tree", _patches),
    "artifacts": ("digests, rows and the model's revision", _artifacts),
    "store": (
        "the master, and an object there and back",
        lambda it: check_store(it.loaded.recipe, it.python),
    ),
    "server": ("its health and its flags", lambda it: check_server(it.loaded.recipe)),
    "sample": (
        "one captured row, read back",
        lambda it: check_sample(it.loaded.recipe, it.python),
    ),
    "update": ("the first optimizer step", _update),
}
"""What each step checks, in order. The full run comes after them; a person starts it."""
