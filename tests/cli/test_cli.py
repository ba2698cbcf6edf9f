"""The command line itself: help, completion, exit codes, JSON, and what is imported when."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner
from commands import Result, call, python, run
from project import write_files
from scenarios import apply, make_tree

from pkgtools import __version__
from pkgtools.blob import Blob
from pkgtools.cli import main
from pkgtools.cli.common import Progress
from pkgtools.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from project import Project

VERBS = [
    *(
        "apply",
        "build",
        "changelog",
        "checkout",
        "commit",
        "drop",
        "export",
        "identify",
        "image",
        "import",
        "init",
    ),
    *("lock", "new"),
    *(
        "port",
        "recipe",
        "recover",
        "refresh",
        "rename",
        "reorder",
        "report",
        "reverse",
        "status",
        "targets",
        "verify",
    ),
]
GROUPS = {
    "build": ["wheel", "image"],
    "changelog": ["check"],
    "image": ["inspect", "test"],
    "recipe": ["check", "render", "validate"],
}


def test_the_verbs() -> None:
    out = call("--help").out
    for verb in VERBS:
        assert re.search(rf"^  {verb} +\S", out, re.MULTILINE), verb
    assert "Exit codes: 0 done" in out
    assert call("-h").out == out


@pytest.mark.parametrize(
    "verb",
    [[verb] for verb in VERBS] + [[group, verb] for group, of in GROUPS.items() for verb in of],
    ids=" ".join,
)
def test_every_help_has_examples(verb: list[str]) -> None:
    done = call(*verb, "--help")
    assert done.code == 0
    examples = re.findall(rf"^ +pkgtools {verb[0]}\b.*$", done.out, re.MULTILINE)
    assert examples, done.out
    for example in examples:
        options = re.findall(r" (--[a-z-]+)", example)
        words = example.split()
        shown = done.out if verb[0] not in GROUPS else call(*words[1:3], "--help").out
        assert all(option in shown for option in options), example
    if len(verb) == 2 or verb[0] not in GROUPS:
        assert "--json" in done.out


def test_the_version() -> None:
    assert run("--version").out == f"pkgtools, version {__version__}\n"


_IMPORTED = """
import json, sys
from pkgtools.cli import run
sys.argv = ["pkgtools", *sys.argv[1:]]
try:
    run()
except SystemExit:
    pass
print("@" + json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
_SLOW = {"git", "docker", "rich", "tomlkit", "unidiff", "pytest"}
_DOWNLOAD = {"filelock", "platformdirs", "ssl", "http"}


def _imported(*arguments: str | Path) -> set[str]:
    out = python(_IMPORTED, *arguments)
    names = json.loads(out.rpartition("@")[2])
    assert "click" in names
    return set(names)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_starting_imports_click_and_little_else(option: str) -> None:
    names = _imported(option)
    assert not names & (_SLOW | _DOWNLOAD | {"msgspec", "packaging", "subprocess", "zipfile"})


def test_no_command_imports_what_it_does_not_need(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    where = ("--tree", tree.root, "--catalog", project.targets)
    verbs: list[list[str | Path]] = [
        ["apply", "--target", "w-1.0", *where],
        ["status", *where],
        ["identify", *where],
        ["reverse", *where],
        ["recover", *where],
        ["targets", "--catalog", project.targets],
    ]
    for verb in verbs:
        assert not _imported(*verb) & (_SLOW | _DOWNLOAD - {"platformdirs"}), verb
    dry_run = ("verify", "--dry-run", "--catalog", project.targets)
    assert not _imported(*dry_run, "--wheel", project.wheel("1.0")) & _SLOW
    needed = _imported(*dry_run, "--git", project.repository, "--rev", "v1.0")
    assert needed & _SLOW == {"git"}


def _complete(words: str, cwd: Path) -> list[str]:
    """Ask for completions as bash does; the last word is the one being typed."""
    asked = {
        "_PKGTOOLS_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(main, env=asked, catch_exceptions=False, prog_name="pkgtools")
    assert done.exit_code == 0
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_completion(project: Project, tmp_path: Path) -> None:
    folder = project.targets.parent
    assert _complete("pkgtools re", folder) == [
        "recipe",
        "recover",
        "refresh",
        "rename",
        "reorder",
        "report",
        "reverse",
    ]
    assert _complete("pkgtools apply --ta", folder) == ["--target"]
    assert _complete("pkgtools apply --target w-d", folder) == [
        "w-dev",
        "w-dev-base",
        "w-dev-short",
    ]
    assert _complete(f"pkgtools apply --catalog {project.targets} -t w-1.", tmp_path) == [
        "w-1.0",
        "w-1.1",
    ]
    assert _complete("pkgtools port --series w-1.", folder) == ["w-1.0", "w-1.1"]
    assert _complete("pkgtools port --via w-1.", folder) == ["w-1.0", "w-1.1"]
    assert _complete("pkgtools port --to w-1.", folder) == ["w-1.0", "w-1.1"]
    assert _complete("pkgtools import --from w-1.", folder) == ["w-1.0", "w-1.1"]
    assert _complete("pkgtools drop --series w-1.", folder) == ["w-1.0", "w-1.1"]
    both = project.copy_catalog(tmp_path / "catalog")
    with both.open("a") as file:
        file.write('[[set]]\nname = "w-all"\ntargets = ["w-1.0", "w-dev"]\n')
    assert _complete("pkgtools verify -t w-a", both.parent) == ["w-all"]
    assert _complete("pkgtools adopt -t w-a", both.parent) == []
    (tmp_path / "targets.toml").write_text("broken")
    assert _complete("pkgtools apply --target w", tmp_path) == []
    source = subprocess.run(
        [sys.executable, "-m", "pkgtools"],
        env={**os.environ, "_PKGTOOLS_COMPLETE": "bash_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_PKGTOOLS_COMPLETE=bash_complete" in source.stdout


def test_the_console_script() -> None:
    """The one that pip installs, beside the interpreter."""
    script = Path(sys.executable).with_name("pkgtools")
    if not script.exists():
        pytest.skip("pkgtools is not installed, only on the path")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"pkgtools, version {__version__}\n"


def _exits(project: Project, where: Path) -> dict[int, Result]:
    """Return one command for each exit code."""
    catalog = ("--catalog", project.targets)
    site = make_tree(project, "site", where)
    newer = project.install(where / "newer", "1.1").parent
    partial = project.write_archive(where / "partial")
    write_files(partial, {"src/widget/answer.py": project.patched["v1.0"]["src/widget/answer.py"]})
    foreign = project.write_archive(where / "foreign")
    write_files(foreign, {"src/widget/answer.py": Blob(b"mine\n")})
    broken = project.copy_catalog(where / "catalog")
    broken.write_text("[[target]\n")
    locked = project.write_archive(where / "locked")
    (locked / ".pkgtools").mkdir()
    (locked / ".pkgtools/pkgtools-journal.json").write_text("{")

    def apply_to(root: Path) -> Result:
        return call("apply", "--target", "w-1.0", "--tree", root, *catalog, "--json")

    return {
        0: apply_to(site.root),
        2: call("apply", "--target", "w-2.0", "--tree", site.root, *catalog, "--json"),
        3: apply_to(newer),
        4: apply_to(partial),
        5: apply_to(foreign),
        6: call("apply", "--tree", site.root, "--catalog", broken, "--json"),
        7: apply_to(locked),
        8: call("verify", "--tree", newer, *catalog, "--json"),
    }


def test_each_kind_of_refusal_has_its_exit_code(project: Project, tmp_path: Path) -> None:
    codes = {
        2: "usage",
        3: "does-not-apply",
        4: "partial",
        5: "foreign",
        6: "malformed",
        7: "tree",
        8: "check-failed",
    }
    for number, done in _exits(project, tmp_path).items():
        assert done.code == number, done
        assert done.err == ""
        facts = done.facts
        if number:
            error = facts["error"]
            assert error.keys() == {"code", "exit_code", "message", "remedy", "details"}
            assert (error["code"], error["exit_code"]) == (codes[number], number)
            assert error["message"]


@pytest.mark.parametrize(
    ("name", "near"), [("w-1.O", "w-1.0"), ("w-dev-bas", "w-dev-base"), ("wdev", "w-dev")]
)
def test_a_name_that_is_nearly_one(name: str, near: str, project: Project) -> None:
    done = call("apply", "--target", name, "--catalog", project.targets)
    assert done.code == 2
    assert f"there is no target {name!r}" in done.err
    assert near in done.err


def test_a_verb_that_is_nearly_one() -> None:
    done = call("aply")
    assert done.code == 2
    assert "Did you mean 'apply'?" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["apply", "--no-such-option", "--json"],
        ["no-such-verb", "--json"],
        ["identify", "--wheel", "/none.whl", "--json"],
        ["apply", "--tree", "", "--json"],
    ],
    ids=" ".join,
)
def test_a_usage_error_is_json_too(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert done.facts["error"]["code"] == "usage"
    assert done.err == ""


@pytest.mark.parametrize("verb", ["lock", "verify", "changelog check"])
@pytest.mark.parametrize("fault", ["--nope", "--catalog", "--catalog=", "--catalog=a --catalog=b"])
def test_a_usage_error_has_the_format_that_was_asked_for(verb: str, fault: str) -> None:
    assert call(*f"{verb} --format json {fault}".split()).facts["error"]["code"] == "usage"
    (log,) = call(*f"{verb} --format=sarif {fault}".split()).facts["runs"]
    assert [result["ruleId"] for result in log["results"]] == ["usage"]
    for plain in ("text", "nope"):
        done = call(*f"{verb} --format {plain} {fault}".split())
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: ")


@pytest.mark.parametrize(
    "words",
    [
        "identify --tree a --python b",
        "identify --python a --git .",
        "apply --python a --tree b",
        "status --tree a --python b",
        "refresh --tree a --python b",
        "new a -m b --python c --tree d",
        "identify --rev a",
        "lock --allow-missing",
        "reorder a --before b --after c",
        "verify --tree . --git .",
        "verify --git . --git . --rev a",
        "verify --allow-missing",
        "port --continue --abort",
        "port --accept a",
        "port",
        "export --waiver --format mail -o a",
        "import a -o b --upstream c",
        "recipe validate targets.toml --up-to artifacts --image --tree a",
    ],
)
def test_contradicting_options_are_refused_before_the_catalog_is_read(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "targets.toml").write_text("malformed = [")
    monkeypatch.delenv("PKGTOOLS_CATALOG", raising=False)
    done = call(*words.split(), "--json", cwd=tmp_path)
    assert (done.code, done.facts["error"]["code"]) == (2, "usage")


_EXTRA = ": got unexpected extra argument"


@pytest.mark.parametrize(
    ("command", "error", "step"),
    [
        ("new x", " new: missing option '-m' / '--message'", "`pkgtools new x -m TEXT`"),
        ("export", " export: missing option '-o' / '--output'", "`pkgtools export -o PATH`"),
        ("drop", " drop: missing argument 'PATCHES...'", "`pkgtools drop PATCHES...`"),
        ("image test", " image test: missing argument 'IMAGE'", "`pkgtools image test IMAGE`"),
        ("rename", " rename: missing argument 'PATCH'", "`pkgtools rename PATCH NEW`"),
        ("build x", " build: no such command 'x'", "`pkgtools build --help`"),
        ("status -x", " status: no such option '-x'", "`pkgtools status --help`"),
        (
            "status --tree",
            " status: option '--tree' requires an argument",
            "`pkgtools status --help`",
        ),
        ("--nope", ": no such option '--nope'", "`pkgtools --help`"),
        ("apply v1", f" apply{_EXTRA} (v1)", "`pkgtools apply --target v1`"),
        ("port v1 --to v2", f" port{_EXTRA} (v1)", "`pkgtools port --to v2 --series v1`"),
        ("status .", f" status{_EXTRA} (.)", "`pkgtools status --tree .`"),
        ("identify v1", f" identify{_EXTRA} (v1)", "`pkgtools identify --help`"),
        ("lock --target v1 v2", f" lock{_EXTRA} (v2)", "`pkgtools lock --target v1 --target v2`"),
        ("refresh --series a b", f" refresh{_EXTRA} (b)", "`pkgtools refresh --help`"),
    ],
)
def test_a_usage_error_has_a_next_step(command: str, error: str, step: str) -> None:
    done = call(*command.split())
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: pkgtools{error}\n  next: {step}\n"


def _single_options(command: click.Command, *words: str) -> Iterator[tuple[str, ...]]:
    """Return the names of each option that takes one value, after the words of its command."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            verb = command.get_command(click.Context(command), name)
            assert verb is not None
            yield from _single_options(verb, *words, name)
    for option in command.params:
        if isinstance(option, click.Option) and not (option.is_flag or option.multiple):
            yield *words, option.opts[0], option.opts[-1]


def test_an_option_given_twice_is_refused(tmp_path: Path) -> None:
    options = list(_single_options(main))
    assert len(options) > 80
    for *words, short, long in options:
        done = call(*words, short, "1", f"{long}=2", cwd=tmp_path)
        assert f"{long} is given twice\n" in done.err, words
        assert (done.code, done.out) == (255 if words == ["merge-file"] else 2, ""), words


def test_an_empty_value_is_refused(tmp_path: Path) -> None:
    """It is an unset variable of a shell; git and `init` have a use for it in two options."""
    for *words, _, long in _single_options(main):
        if long != "--prefix":
            assert "it is empty\n" in call(*words, long, "", cwd=tmp_path).err, words
    for words in (["verify", "--wheel", ""], ["drop", ""], ["drop", "a", ""], ["rename", "a", ""]):
        assert "it is empty\n" in call(*words, cwd=tmp_path).err


def test_help_and_completion_work_after_an_option_given_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("apply", "--tree", "a", "--tree", "b")
    for order in ((*words, "--help"), ("apply", "-h", *words[1:])):
        shown = call(*order, cwd=tmp_path)
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.startswith("Usage: pkgtools apply")
    monkeypatch.setenv("_PKGTOOLS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("pkgtools", *words, "--py")))
    monkeypatch.setenv("COMP_CWORD", str(len(words) + 1))
    assert call(cwd=tmp_path).out == "plain,--python\n"


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_a_name_that_is_no_text_is_told_all_the_same(
    locale: str, project: Project, tmp_path: Path
) -> None:
    """The text around it, too, whatever the locale."""
    odd = tmp_path / os.fsdecode(b"\xc3\xa9 caf\xe9")
    where = ("status", "--tree", odd, "--catalog", project.targets, "--json")
    plain = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    refused = run(*where, env=plain)
    assert (refused.code, refused.err) == (2, "")
    assert f"{tmp_path}/\u00e9 caf\ufffd is not a folder" in refused.facts["error"]["message"]
    project.install(odd)
    done = run(*where, env=plain)
    assert done.code == 0, done.err
    assert f"{tmp_path}/\u00e9 caf\ufffd" in done.facts["tree"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with Progress().task("reading oci:[old]/[/b]:x: :smile:"):
        pass
    assert "reading oci:[old]/[/b]:x: :smile:" in terminal.getvalue()


def test_progress_where_nothing_hears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has None for a stderr that is closed when it starts."""
    monkeypatch.setattr(sys, "stderr", None)
    with Progress().task("reading"):
        pass


def test_errors_go_to_stderr_and_answers_to_stdout(project: Project, tmp_path: Path) -> None:
    tree = make_tree(project, "site", tmp_path)
    where = ("--tree", tree.root, "--catalog", project.targets)
    done = run("apply", "--target", "w-1.1", *where)
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert "\x1b[" not in done.err  # no colours where no one sees them
    done = call("apply", "--target", "w-1.0", *where)
    assert done.err == ""
    assert done.out.startswith("applied w-1.0 (1.0)")


def test_targets(project: Project) -> None:
    facts = call("targets", "--catalog", project.targets, "--json").facts
    rows = facts["targets"]
    assert facts["problems"] == []
    assert [(row["name"], row["default"], row["validated"]) for row in rows] == [
        ("w-1.0", False, True),
        ("w-1.1", True, True),
        ("w-dev", False, True),
    ]
    assert rows[0]["patches"] == [
        patch.name for patch in project.catalog().target("w-1.0").series.patches
    ]
    assert rows[2]["aliases"] == [
        {"name": "w-dev-base", "revision": project.commits["dev-base"], "validated": True},
        {"name": "w-dev-short", "revision": None, "validated": False},
    ]
    shown = call("targets", "--catalog", project.targets).out
    assert "w-1.1  default" in shown
    assert "w-dev-short  revision not known in full  not validated" in shown


def test_the_installed_package_of_a_python(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --tree it is the package that --python would import."""
    project.install(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    arguments = ("--python", sys.executable, "--catalog", project.targets)
    assert call("apply", "--target", "w-1.0", *arguments).code == 0
    assert "patched, w-1.0" in call("status", *arguments).out
    assert call("verify", "--dry-run", *arguments).code == 0
    both = call("verify", "--dry-run", "-t", "w-1.0", "-t", "w-1.1", *arguments)
    assert (both.code, both.out.splitlines()[-1]) == (3, "patched: 1, refused: 1")
    monkeypatch.delenv("PYTHONPATH")
    done = call("status", *arguments)
    assert done.code == 2
    assert f"{sys.executable} has no package widget" in done.err
    assert "--tree" in done.err


def test_two_upstreams_in_one_catalog(project: Project, tmp_path: Path) -> None:
    """A tree is of whichever upstream fits."""
    targets = project.copy_catalog(tmp_path / "catalog")
    text = targets.read_text()
    gadget = text[text.index("[[upstream]]") : text.index("[[target]]")].replace("widget", "gadget")
    targets.write_text(text.replace("[[upstream]]", f"{gadget}\n[[upstream]]", 1))
    tree = make_tree(project, "site", tmp_path)
    apply(project, tree)
    options = ("--tree", tree.root, "--catalog", targets, "--json")
    assert call("status", *options).facts["target"] == "w-1.0"
    done = call("identify", "--wheel", project.wheel("1.0"), "--catalog", targets, "--json")
    assert [match["target"] for match in done.facts["matches"]] == ["w-1.0"]
    assert call("reverse", *options).code == 0
    assert call("status", *options).facts["state"] == "pristine"
    done = call("status", "--tree", tmp_path / "catalog", "--catalog", targets)
    assert done.code == 2
    assert str(tmp_path / "catalog") in done.err


def test_an_error_is_told_where_stdout_is_full(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pkgtools.cli.common.print_facts", refuse)
    monkeypatch.setattr("pkgtools.cli.render.print_facts", refuse)
    done = call("targets", "--catalog", project.targets, "--json")
    assert (done.code, done.out) == (7, "")
    assert "error: a file: No space left on device" in done.err


def test_an_error_of_the_system_is_a_refusal(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a traceback: what and where, and an exit code."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr("pkgtools.cli.common.load_catalog", refuse)
    done = call("targets", "--catalog", project.targets)
    assert done.code == 7
    assert "error: /somewhere: Permission denied" in done.err


def test_what_others_wrote_gives_a_terminal_no_orders(project: Project, tmp_path: Path) -> None:
    """Neither a receipt nor the lines of a file that a refusal shows."""
    tree = make_tree(project, "site", tmp_path)
    core = tree.file("src/widget/core.py")
    core.write_bytes(
        core.read_bytes().replace(b"    total = 0\n", b"    total = 0  # \x1b]0;x\x07\n")
    )
    where = ("--tree", tree.root, "--catalog", project.targets)
    done = call("apply", "--target", "w-1.0", *where)
    assert done.code == 5
    assert r"total = 0  # \u001b]0;x\u0007" in done.err
    assert "\x1b" not in done.err
    core.write_bytes(project.releases["1.0"]["src/widget/core.py"].data)
    apply(project, tree)
    receipt = tree.home / "pkgtools.json"
    receipt.write_bytes(receipt.read_bytes().replace(b'"w-1.0"', b'"\\u001b[8m\\u001b]0;x\\u0007"'))
    for done in (call("status", *where), call("reverse", *where)):
        assert done.code == 0
        assert r"\u001b[8m\u001b]0;x\u0007" in done.out
        assert "\x1b" not in done.out


def test_colours_reach_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(click.Command("any"), color=True)
    with context:
        say(click.style("ok", fg="green") + " \x1b[2J\U000e0041")
        say("theirs\x1b[30m")
    ours, theirs = capsys.readouterr().out.splitlines()
    assert ours == "\x1b[32mok\x1b[0m \\u001b[2J\\U000e0041\x1b[0m"
    assert theirs == "theirs\x1b[30m\x1b[0m"
