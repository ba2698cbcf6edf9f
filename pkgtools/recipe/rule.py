"""A rule of the config plan."""

from collections.abc import Callable
from dataclasses import dataclass

from pkgtools.recipe.model import Recipe


@dataclass(frozen=True)
class RuleResult:
    """The result of a rule on a recipe."""

    ok: bool | None
    """None if the rule needs a value that the site has to give."""
    found: str
    computed: str


@dataclass(frozen=True)
class Rule:
    """A check of a recipe."""

    name: str
    key: str
    why: str
    check: Callable[[Recipe], RuleResult]


def rule(key: str, why: str) -> Callable[[Callable[[Recipe], RuleResult]], Rule]:
    """Make a rule of a function. `_object_size` is the rule ``object-size``."""
    return lambda check: Rule(check.__name__[1:].replace("_", "-"), key, why, check)
