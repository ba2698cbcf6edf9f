"""Each refusal says what to do next, and the command that it names is accepted as it stands."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import pytest
from catalogs import write_catalog
from commands import Result, call
from scenarios import make_tree
from several import make_site

from pkgtools.cli import main
from pkgtools.cli.next_step import completed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Project

_CORE = "widget/core.py"
_FAR = {_CORE: ("return max(values)", "return 1 + max(values)")}
_NEAR = {_CORE: ("limit=LIMIT", "limit=3 * LIMIT")}
_NEEDS_SOURCES = {"lock", "port", "build", "new"}
"""Not run here, only parsed: their sources would come from an index."""


@dataclass(frozen=True)
class Case:
    """An installed package, a catalog, and what a user does there."""

    project: Project
    root: Path
    """Empty, for more."""
    site: Path
    """The site-packages folder."""

    def do(self, verb: str, *more: str | Path, catalog: Path | None = None) -> Result:
        """Run a command on the package."""
        where = ("--tree", self.site, "--catalog", catalog or self.project.targets)
        return call(verb, *where, *more)

    def other(self, edits: dict[str, tuple[str, str]], name: str = "other") -> Path:
        """Write another catalog."""
        return write_catalog(self.project, self.root / name, edits, target=f"{name}-1.0")

    def write(self, path: str, text: str) -> None:
        """Edit a file of the package."""
        (self.site / path).write_text(text)


def _foreign(case: Case) -> Result:
    case.write(_CORE, "CORE = 1\n")
    return case.do("apply", "-t", "w-1.0")


def _foreign_dry_run(case: Case) -> Result:
    case.write(_CORE, "CORE = 1\n")
    return case.do("verify", "--dry-run", "-t", "w-1.0")


def _partial(case: Case) -> Result:
    case.do("apply", "-t", "w-1.0")
    (case.site / "widget_kit-1.0.dist-info/pkgtools.json").unlink()
    case.write("widget/answer.py", '"""The answer."""\n\nANSWER = 41\n')
    return case.do("apply", "-t", "w-1.0")


def _edited(case: Case) -> Result:
    case.do("apply", "-t", "w-1.0")
    case.write(_CORE, "CORE = 1\n")
    return case.do("reverse")


def _covered(case: Case) -> Result:
    case.do("apply", "-t", "w-1.0")
    case.do("apply", catalog=case.other(_FAR))
    return case.do("reverse", "-t", "w-1.0")


def _covered_by_itself(case: Case) -> Result:
    case.do("apply", "-t", "w-1.0")
    case.do("apply", catalog=case.other(_FAR))
    return case.do("apply", "-t", "w-1.0", catalog=case.project.changed_targets)


def _does_not_stack(case: Case) -> Result:
    case.do("apply", "-t", "w-1.0")
    return case.do("apply", catalog=case.other(_NEAR))


def _older(case: Case) -> Result:
    case.do("apply", "-t", "w-1.0")
    return case.do("verify", "-t", "w-1.0", catalog=case.project.changed_targets)


def _without_receipt(case: Case) -> Result:
    case.do("apply", "-t", "w-1.0")
    (case.site / "widget_kit-1.0.dist-info/pkgtools.json").unlink()
    return case.do("reverse")


def _not_whole(case: Case) -> Result:
    case.do("apply", "-t", "w-1.0")
    case.write("widget/extra.py", "")
    return case.do("verify")


def _stale_lock(case: Case) -> Result:
    targets = case.project.copy_catalog(case.root / "c")
    patch = next((targets.parent / "patches/widget/v1.0").glob("*.patch"))
    patch.write_bytes(b"A remark.\n\n" + patch.read_bytes())
    return case.do("apply", "-t", "w-1.0", catalog=targets)


def _several_fit(case: Case) -> Result:
    targets = case.project.copy_catalog(case.root / "c")
    block = next(part for part in targets.read_text().split("[[target]]") if '"w-1.0"' in part)
    with targets.open("a") as file:
        file.write("\n[[target]]" + block.replace('name = "w-1.0"', 'name = "w-twin"'))
    return case.do("apply", catalog=targets)


def _several_packages(case: Case) -> Result:
    two = make_site(case.root)
    two.apply()
    return two.do("reverse")


def _not_applied(case: Case) -> Result:
    case.do("apply", "-t", "w-1.0")
    return case.do("reverse", "-t", "nothing")


def _set_for_one(case: Case) -> Result:
    targets = case.project.copy_catalog(case.root / "c")
    with targets.open("a") as file:
        file.write('[[set]]\nname = "all"\ntargets = ["w-1.0", "w-1.1"]\n')
    return case.do("adopt", "-t", "all", catalog=targets)


def _unknown_release(case: Case) -> Result:
    """As after an upgrade: the files are the same, or nearly."""
    (case.site / "widget_kit-1.0.dist-info").rename(case.site / "widget_kit-1.7.dist-info")
    case.write("widget/answer.py", "ANSWER = 40\n")
    done = case.do("apply", "-t", "w-1.0")
    assert "pkgtools port --series w-1.0 --to 1.7" in done.err, done
    return done


def _unproven(case: Case) -> Result:
    """As after `port --write` without `lock`: the target is there, its lockfile is not."""
    targets = case.project.copy_catalog(case.root / "c")
    (targets.parent / "patches/widget/v1.1/lock.toml").unlink()
    site = case.project.install(case.root / "next", "1.1").parent
    done = call("apply", "--tree", site, "--catalog", targets)
    assert f"{site} (widget_kit-1.1) is w-1.1 by its version: " in done.err
    assert f"`pkgtools lock --target w-1.1 --catalog {targets}`" in done.err
    return done


def _none_proven(case: Case) -> Result:
    targets = case.project.copy_catalog(case.root / "c")
    locks = sorted(targets.parent.rglob("lock.toml"))
    for lock in locks:
        lock.unlink()
    done = case.do("apply", catalog=targets)
    assert all(f"{lock} is missing" in done.err for lock in locks), done
    return done


def _not_compared(case: Case) -> Result:
    """Without a version, another target may be the right one."""
    targets = case.project.copy_catalog(case.root / "c")
    (targets.parent / "patches/widget/v1.1/lock.toml").unlink()
    root = case.project.write_checkout(case.root / "checkout", "1.1")
    done = call("apply", "--tree", root, "--catalog", targets)
    assert "it was not compared with w-1.1\n" in done.err, done
    return done


_REFUSALS: dict[str, Callable[[Case], Result]] = {
    "foreign": _foreign,
    "foreign, dry run": _foreign_dry_run,
    "another release": lambda case: case.do("apply", "-t", "w-1.1"),
    "another release, dry run": lambda case: case.do("verify", "--dry-run", "-t", "w-1.1"),
    "another release, verify": lambda case: case.do("verify", "-t", "w-1.1"),
    "partial": _partial,
    "pristine": lambda case: case.do("verify", "-t", "w-1.0"),
    "edited": _edited,
    "covered": _covered,
    "a newer one covered": _covered_by_itself,
    "does not stack": _does_not_stack,
    "older": _older,
    "without a receipt": _without_receipt,
    "adopt nothing": lambda case: case.do("adopt", "-t", "w-1.0"),
    "not whole": _not_whole,
    "unknown release": _unknown_release,
    "stale lock": _stale_lock,
    "unproven": _unproven,
    "none proven": _none_proven,
    "not compared": _not_compared,
    "several fit": _several_fit,
    "several packages": _several_packages,
    "a set for one": _set_for_one,
    "not applied": _not_applied,
    "unknown": lambda case: case.do("apply", "-t", "w-1"),
    "unknown at all": lambda case: case.do("apply", "-t", "zzz"),
    "no package": lambda case: call(
        *("apply", "--tree", case.root, "--catalog", case.project.targets)
    ),
    "no catalog": lambda case: case.do("apply", catalog=case.root / "none.toml"),
    "two sources": lambda case: case.do("verify", "--wheel", case.project.wheel("1.0")),
    "contradiction": lambda case: case.do("verify", "--allow-missing"),
    "no source": lambda case: call(
        *("verify", "--dry-run", "-t", "w-dev-short", "--git", case.project.repository),
        *("--catalog", case.project.targets),
    ),
}


def _steps(done: Result) -> list[str]:
    return re.findall(r"^ *next: (.*)$", done.out + done.err, re.MULTILINE)


def _commands(step: str) -> list[list[str]]:
    found = re.findall(r"`(pkgtools [^`]+)`", step)
    bare = re.sub(r"`[^`]*`", "", step)
    found += re.findall(r"pkgtools [^,;()]+", bare)
    return [shlex.split(command)[1:] for command in found]


@pytest.mark.parametrize("name", _REFUSALS)
def test_the_next_command_is_accepted(name: str, project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    done = _REFUSALS[name](Case(project, tmp_path, tree.root))
    assert done.code not in (0, 1), done
    steps = _steps(done)
    assert steps, done
    for words in [words for step in steps for words in _commands(step)]:
        if any(word.isupper() for word in words):  # a person fills it in
            continue
        try:
            main.make_context("pkgtools", [*words[:1], "--help"], resilient_parsing=True)
            if words[0] in _NEEDS_SOURCES:
                _parse(words)
            else:
                assert call(*words).code != 2, words
        except click.UsageError as error:
            pytest.fail(f"{words}: {error}")


def _parse(words: list[str]) -> None:
    command: click.Command = main
    # click keeps a command's help option: it must be that of the real context.
    context = click.Context(main, info_name="pkgtools", **main.context_settings)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    command.make_context("pkgtools", list(words), parent=context)


def test_the_next_command_is_the_right_one(project: Project, tmp_path: Path) -> None:
    """Followed step by step, they end in a tree that verifies, and in one that is reversed."""
    tree = make_tree(project, "site", tmp_path)
    case = Case(project, tmp_path, tree.root)
    (step,) = _steps(case.do("verify", "-t", "w-1.0"))
    ((*words,),) = _commands(step)
    assert call(*words).code == 0
    assert case.do("verify", "-t", "w-1.0").code == 0
    (step,) = _steps(_without_receipt(case))
    ((*words,),) = _commands(step)
    assert call(*words).code == 0
    assert case.do("reverse").code == 0
    assert case.do("verify", "--dry-run", "-t", "w-1.0").code == 0


@pytest.mark.parametrize("verb", ["verify", "reverse", "apply"])
def test_the_command_after_an_edit_names_the_edited_tree(
    verb: str, project: Project, tmp_path: Path
) -> None:
    """Without --tree, `refresh` takes no edits: it only corrects line numbers."""
    case = Case(project, tmp_path, make_tree(project, "site", tmp_path).root)
    case.do("apply", "-t", "w-1.0")
    case.write("widget/answer.py", "ANSWER = 7\n")
    (step,) = _steps(case.do(verb))
    assert f"`pkgtools refresh --series w-1.0 --tree {case.site} --catalog" in step


def test_a_usage_error_without_a_remedy_names_the_help(project: Project, tmp_path: Path) -> None:
    case = Case(project, tmp_path, make_tree(project, "site", tmp_path).root)
    assert "next: see `pkgtools verify --help`" in case.do("verify", "--allow-missing").err


def test_a_known_revision_is_told_once(project: Project, tmp_path: Path) -> None:
    """The message names it; its files, each as it should be, are no reason."""
    case = Case(project, tmp_path, make_tree(project, "site", tmp_path).root)
    done = case.do("apply", "-t", "w-1.1")
    assert done.err.count("pristine") == 1
    assert done.err.splitlines()[1].startswith("  0001-"), done.err


def test_options_are_repeated_where_the_command_takes_them() -> None:
    @click.command()
    @click.option("--tree")
    @click.option("--x", is_flag=True)
    def other(tree: str, x: bool) -> None:
        """Take options that mean something else than those of pkgtools."""
        said.append(completed(f"see `pkgtools status`, {x} {tree}"))

    said: list[str] = []
    root = click.Group("pkgtools", commands={"other": other, **_real("status")})
    root.main(["other", "--tree", "a b", "--x"], standalone_mode=False)
    assert said == ["see `pkgtools status`, True a b"]  # another --tree, by its help
    assert completed("see `pkgtools status`") == "see `pkgtools status`"  # no command runs


def _real(name: str) -> dict[str, click.Command]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return {name: command}


def test_a_set_where_a_series_is_meant(project: Project, tmp_path: Path) -> None:
    catalog = project.copy_catalog(tmp_path / "catalog")
    catalog.write_text(catalog.read_text() + '\n[[set]]\nname = "all"\ntargets = ["w-1.0"]\n')
    done = call("checkout", "work", "--series", "all", "--catalog", catalog)
    assert done.code == 2
    assert f"`pkgtools checkout --series w-1.0 work --catalog {catalog}`" in done.err
