"""Compare the recipes of a family: which one differs, and which settings then have no effect."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pkgtools.recipe.load import Loaded
from pkgtools.recipe.plan import RuleFinding, RuleOutcome

_COMPARED: Final = ("server.flags", "server.environment", "trainer.environment", "store", "master")
_ABSENT: Final = "nothing"
_WHY: Final = "one recipe of the family lacks a flag, so settings that depend on it have no effect"
_GIVES_MEANING: Final = {
    "enable-spec-capture": ("spec-capture-", "SGLANG_SPEC_CAPTURE_", "MOONCAKE_", "MC_"),
    "enable-hierarchical-cache": ("hicache-", "MOONCAKE_", "MC_"),
    "hicache-storage-backend": ("hicache-storage-", "MOONCAKE_", "MC_"),
    "disaggregation-mode": ("disaggregation-", "MOONCAKE_", "MC_"),
    "disaggregation-transfer-backend": ("MOONCAKE_", "MC_"),
    "kv-transfer-config": ("MOONCAKE_", "MC_"),
    "speculative-algorithm": ("speculative-",),
}
"""Flags, and the prefixes of the flags and variables that have no effect without them."""


def check_siblings(recipes: Sequence[Loaded]) -> list[RuleFinding]:
    """Compare the recipes of each family, key by key."""
    families: dict[str, list[Loaded]] = {}
    for loaded in recipes:
        if loaded.recipe.family:
            families.setdefault(loaded.recipe.family, []).append(loaded)
    return [finding for family in families.values() for finding in _check_family(family)]


def _check_family(family: list[Loaded]) -> Iterator[RuleFinding]:
    values = [_flatten(loaded) for loaded in family]
    for key in sorted({key for each in values for key in each}):
        column = [each.get(key, _ABSENT) for each in values]
        odd = _odd_one(column, values, key)
        if odd is None or key in family[odd].recipe.differs:
            continue
        name, own = family[odd].recipe.name, column[odd]
        others = " and ".join(each.recipe.name for each in family if each is not family[odd])
        usual = next(value for value in column if value != own)
        silenced = _silenced(key, values[odd]) if own in (_ABSENT, "false") else []
        effect = f"; it silences {', '.join(silenced)}" if silenced else ""
        table = key if key in values[odd] else key.rpartition(".")[0]
        yield RuleFinding(
            rule="siblings",
            outcome=RuleOutcome.WRONG,
            found=f"{name} has {own} for {key}, {others} {usual}",
            computed=f"{name} is the odd one{effect}; if it is meant to be, name {key} under its "
            "differs",
            why=_WHY,
            key=key,
            where=family[odd].place(table),
        )


def _odd_one(column: list[str], values: list[dict[str, str]], key: str) -> int | None:
    """Return the index of the recipe that differs from all others, if the others agree.

    Of two, neither is odd, unless one lacks what the things that it carries need.
    """
    counts = Counter(column)
    if len(counts) != 2:
        return None
    if len(column) == 2:
        lacking = [i for i, value in enumerate(column) if value in (_ABSENT, "false")]
        return lacking[0] if lacking and _silenced(key, values[lacking[0]]) else None
    rare, count = counts.most_common()[-1]
    return column.index(rare) if count == 1 else None


def _silenced(key: str, values: dict[str, str]) -> list[str]:
    """Return the keys that have no effect without the flag `key`."""
    flag = key.removeprefix("server.flags.")
    if flag == key:
        return []
    stem = flag.removeprefix("enable-")
    begins = (*_GIVES_MEANING.get(flag, ()), f"{stem}-")
    infix = stem.replace("-", "_").upper()
    return [
        other
        for other in values
        if other != key
        and (other.rpartition(".")[2].startswith(begins) or infix in other.rpartition(".")[2])
    ]


def _flatten(loaded: Loaded) -> dict[str, str]:
    """Return the compared values by key, as texts."""
    whole = msgspec.to_builtins(loaded.recipe)
    flat = {}
    for path in _COMPARED:
        table = whole
        for name in path.split("."):
            table = table[name]
        for name, value in table.items():
            if not isinstance(value, dict):
                flat[f"{path}.{name}"] = msgspec.json.encode(value).decode()
    return flat
