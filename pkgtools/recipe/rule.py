"""A rule of the config plan."""

from collections.abc import Callable
from dataclasses import dataclass

from pkgtools.recipe.model import Recipe


@dataclass(frozen=True)
class RuleResult:
    """What a rule's function returns; without a verdict, the site has yet to say something."""

    ok: bool | None
    found: str
    computed: str


@dataclass(frozen=True)
class Rule:
    """One line of the table."""

    name: str
    key: str
    check: Callable[[Recipe], RuleResult]
    why: str
