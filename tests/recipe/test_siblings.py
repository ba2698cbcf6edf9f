"""Recipes of one family: the odd one is named, with what it silences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import call
from recipes import Variant, write_variant

from pkgtools.recipe.siblings import check_siblings

if TYPE_CHECKING:
    from pathlib import Path


def _family(folder: Path, *edits: dict[str, str]) -> list[Variant]:
    return [
        write_variant(folder, {'name = "kimi-k3-capture"': f'name = "r{i}"', **edit}, f"r{i}.toml")
        for i, edit in enumerate(edits)
    ]


def test_alike(tmp_path: Path) -> None:
    assert check_siblings([v.load() for v in _family(tmp_path, {}, {}, {})]) == []


def test_one_lacks_the_flag_that_gives_others_a_meaning(tmp_path: Path) -> None:
    """InferenceX#2639: it carried the variables that only matter with the flag."""
    variables = '[server.environment]\nSGLANG_SPEC_CAPTURE_LOG = "1"\n\n[trainer]\nranks'
    carried = {"[trainer]\nranks": variables}
    family = _family(tmp_path, carried, {**carried, "enable-spec-capture = true\n": ""}, carried)
    (finding,) = check_siblings([v.load() for v in family])
    assert finding.key == "server.flags.enable-spec-capture"
    assert finding.found == ("r1 has nothing for server.flags.enable-spec-capture, r0 and r2 true")
    for silenced in (
        "server.flags.spec-capture-method",
        "server.flags.spec-capture-aux-layer-ids",
        "server.environment.SGLANG_SPEC_CAPTURE_LOG",
    ):
        assert silenced in finding.computed
    assert "mem-fraction" not in finding.computed
    assert finding.where.startswith(f"{family[1].recipe}:")
    # Two are enough when one lacks what it carries the rest of.
    (finding,) = check_siblings([v.load() for v in family[:2]])
    assert "r1 is the odd one" in finding.computed


@pytest.mark.parametrize(
    ("edit", "key", "found"),
    [
        ({"tp-size = 8": "tp-size = 4"}, "server.flags.tp-size", "r2 has 4"),
        ({"trust-remote-code = true": "trust-remote-code = false"},
         "server.flags.trust-remote-code", "r2 has false"),
        ({"trust-remote-code = true": "disable-overlap-schedule = true\ntrust-remote-code = true"},
         "server.flags.disable-overlap-schedule", "r2 has true"),
        ({"lease_seconds = 300": "lease_seconds = 600"}, "master.lease_seconds", "r2 has 600"),
        ({'segment = "1 TiB"': 'segment = "2 TiB"'}, "store.segment", 'r2 has "2 TiB"'),
    ],
)  # fmt: skip
def test_the_odd_one(tmp_path: Path, edit: dict[str, str], key: str, found: str) -> None:
    family = _family(tmp_path, {}, {}, edit)
    (finding,) = check_siblings([v.load() for v in family])
    assert finding.key == key
    assert finding.found.startswith(found)
    meant = {
        **edit,
        'family = "kimi-k3-capture"': f'family = "kimi-k3-capture"\ndiffers = ["{key}"]',
    }
    family = _family(tmp_path, {}, {}, meant)
    assert check_siblings([v.load() for v in family]) == []


def test_values_that_all_differ_have_no_odd_one(tmp_path: Path) -> None:
    edits = [{"tp-size = 8": f"tp-size = {n}"} for n in (2, 4, 8)]
    assert check_siblings([v.load() for v in _family(tmp_path, *edits)]) == []
    assert check_siblings([v.load() for v in _family(tmp_path, *edits[:2])]) == []
    halves = [edits[0], edits[0], edits[1], edits[1]]
    assert check_siblings([v.load() for v in _family(tmp_path, *halves)]) == []


def test_other_families_are_left_alone(tmp_path: Path) -> None:
    other = {'family = "kimi-k3-capture"': 'family = "other"', "tp-size = 8": "tp-size = 4"}
    assert check_siblings([v.load() for v in _family(tmp_path, {}, {}, other)]) == []
    none = {'family = "kimi-k3-capture"\n': "", "tp-size = 8": "tp-size = 4"}
    assert check_siblings([v.load() for v in _family(tmp_path, none, none, {})]) == []


def test_on_the_command_line(tmp_path: Path) -> None:
    family = _family(tmp_path, {}, {}, {"tp-size = 8": "tp-size = 4"})
    arguments: list[str | Path] = [*(v.recipe for v in family), "--site", family[0].site]
    done = call("recipe", "check", *arguments, "--json")
    assert done.code == 8
    assert [f["key"] for f in done.facts["siblings"]] == ["server.flags.tp-size"]
    done = call("recipe", "check", *arguments)
    assert "wrong  siblings: r2 has 4 for server.flags.tp-size, r0 and r1 8" in done.out
    assert call("recipe", "check", *arguments[:2], "--site", family[0].site).code == 0
