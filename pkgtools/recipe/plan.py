"""Check a recipe against every rule, and list the values that its site must add."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pkgtools.errors import UsageError
from pkgtools.recipe.load import Loaded
from pkgtools.recipe.model import Recipe
from pkgtools.recipe.rule import RuleResult
from pkgtools.recipe.rules import RULES


class RuleOutcome(StrEnum):
    """The outcome of a rule on a recipe."""

    OK = "ok"
    WRONG = "wrong"
    OPEN = "open"


_OUTCOMES: Final = {True: RuleOutcome.OK, False: RuleOutcome.WRONG, None: RuleOutcome.OPEN}


@dataclass(frozen=True)
class MissingValues:
    """The keys of a recipe that its site has to give."""

    missing: list[str]


@dataclass(frozen=True)
class RuleFinding:
    """The finding of one rule on one recipe."""

    rule: str
    outcome: RuleOutcome
    found: str
    computed: str
    why: str
    key: str
    where: str
    """``file:line`` of the key."""


def check_plan(loaded: Loaded) -> list[RuleFinding]:
    """Check a recipe against every rule."""
    recipe = loaded.recipe
    missing = [
        _finding(loaded, "site", key, why, RuleResult(None, f"{key} is missing", f"give {what}"))
        for key, what, why in missing_values(recipe)
    ]
    return missing + [
        _finding(loaded, rule.name, rule.key, rule.why, rule.check(recipe)) for rule in RULES
    ]


def _finding(loaded: Loaded, rule: str, key: str, why: str, result: RuleResult) -> RuleFinding:
    outcome = _OUTCOMES[result.ok]
    return RuleFinding(
        rule, outcome, result.found, result.computed, why=why, key=key, where=loaded.place(key)
    )


def missing_values(recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    """Yield each value that neither the recipe nor the site gives: key, what, why."""
    for key, what, why in SITE:
        table, _, name = key.rpartition(".")
        holder = getattr(recipe, table) if table else recipe
        if holder is not None and getattr(holder, name) is None:
            yield key, what, why


_ADDRESS: Final = "the address under which the other node reaches this one"
_BIND: Final = "the routable address of the interface that is to be used"
_INTERFACES: Final = "the addresses of all interfaces: ip -brief address"
SITE: Final = (
    ("image", "the image of master and server as NAME@sha256:...", "a digest names one image"),
    ("model.path", "the model's folder", "the server reads it"),
    ("model.revision", "the commit of the model's repository", "the revision identifies the model"),
    ("draft.path", "the draft checkpoint's file or folder", "the trainer starts from it"),
    ("draft.sha256", "its digest (docs/recipe.md: of a folder)", "it identifies the checkpoint"),
    ("dataset.path", "the data set's file", "the trainer reads its rows"),
    ("dataset.sha256", "its SHA-256", "the digest identifies the data set"),
    ("capture_node.address", _ADDRESS, "the trainer reads from it"),
    ("capture_node.bind_address", _BIND, "Mooncake publishes it"),
    ("capture_node.interfaces", _INTERFACES, "Mooncake may publish the address of a bridge"),
    ("capture_node.memory", "what the deployment may take", "the segment comes out of it"),
    ("trainer_node.address", _ADDRESS, "the store's client is known by it"),
    ("trainer_node.bind_address", _BIND, "Mooncake publishes it"),
    ("trainer_node.interfaces", _INTERFACES, "Mooncake may publish the address of a bridge"),
    (
        "link.gigabits_per_second",
        "what the deployment gets of the link",
        "a read has to end within its lease",
    ),
    ("trainer.image", "the trainer's image as NAME@sha256:...", "a digest names one image"),
    ("trainer.command", "the trainer's command", "only the site knows it"),
    ("trainer.output", "the folder that it writes to", "the first update is read from it"),
)
"""Values that a site file may give: key, what it is, why it is needed."""


def require_site(recipe: Recipe) -> None:
    """Raise a `UsageError` that lists the missing values, if any."""
    missing = {key: what for key, what, _ in missing_values(recipe)}
    if missing:
        lines = "".join(f"\n  {key}: {what}" for key, what in missing.items())
        raise UsageError(
            f"{recipe.name} misses values of its site:{lines}",
            remedy="give them in a file with --site; docs/recipe.md shows one",
            details=MissingValues(list(missing)),
        )
