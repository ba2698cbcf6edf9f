"""Proposals for conflicts: where they stand, how a person takes them, and what they must pass."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

import pytest
from commands import call
from small import Small, make_small

from pkgtools.merge import Merge, OtherFiles, merge, with_proposals
from pkgtools.merge.markers import accept_proposals
from pkgtools.merge.proposals import filled
from pkgtools.merge.rules.words import merge_words

if TYPE_CHECKING:
    from pathlib import Path

CALLS = "def f(x):\n    one(x)\n    end(x)\n"
CALLS_OURS = CALLS.replace("    end", "    ours(x)\n    end")
CALLS_THEIRS = CALLS.replace("    end", "    theirs(x)\n    end")
CALLS_BOTH = CALLS.replace("    end", "    theirs(x)\n    ours(x)\n    end")
VALUE = "VALUE = 1\n"


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkgtools.port.route.released_versions", lambda _: [])


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Build two releases with three conflicts in three files, one of them without a proposal."""
    return make_small(
        tmp_path / "small",
        {
            "1.0": {"a.py": CALLS, "b.py": CALLS, "c.txt": VALUE},
            "1.1": {"a.py": CALLS_THEIRS, "b.py": CALLS_THEIRS, "c.txt": "VALUE = 2\n"},
        },
        [
            ("one", {"a.py": CALLS_OURS}),
            ("two", {"b.py": CALLS_OURS}),
            ("three", {"c.txt": "VALUE = 3\n"}),
        ],
    )


def started(small: Small, output: Path) -> Path:
    done = small.port("--series", "one", "--to", "1.1", "-o", output)
    assert done.code == 3, done.out + done.err
    return output.with_name(f"{output.name}.port") / "conflicts/src/widget"


def test_a_proposal_is_reported_and_stands_in_its_conflict(small: Small, tmp_path: Path) -> None:
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new", "--json")
    hunks = [hunk for patch in done.facts["steps"][0]["patches"] for hunk in patch["hunks"]]
    text = "    theirs(x)\n    ours(x)\n"
    assert [hunk["proposal"] for hunk in hunks] == [
        {"number": 1, "rule": "words", "text": text},
        {"number": 1, "rule": "words", "text": text},
        None,
    ]
    marked = (tmp_path / "new.port/conflicts/src/widget/a.py").read_text()
    assert f"||||||| proposal 1\n{text}=======\n    theirs(x)\n>>>>>>> " in marked
    assert "proposal" not in (tmp_path / "new.port/conflicts/src/widget/c.txt").read_text()
    named_so = call("port", "--abort", "-o", tmp_path / "new.port")
    assert (named_so.code, f"next: leave .port out: -o {tmp_path / 'new'}\n" in named_so.err) == (
        2,
        True,
    )
    refused = call("port", "--continue", "-o", tmp_path / "new")
    assert refused.code == 3
    assert "line 3 of the old source: " in refused.err
    assert refused.err.count("(proposal 1)") == 2
    assert f"`pkgtools port --continue -o {tmp_path / 'new'} --accept`" in refused.err


def test_the_next_steps_of_a_port_write_as_it_does(small: Small) -> None:
    none = call("port", "--continue", "--catalog", small.catalog)
    assert (none.code, "no port waits in this folder or beside" in none.err) == (2, True)
    waiting = small.port("--to", "1.1", "--write")
    output = small.series.with_name("v1.1")
    conflicts = output.with_name("v1.1.port") / "conflicts/src/widget"
    assert f"3 files wait for you:\n  {conflicts / 'a.py'}:3\n" in waiting.out
    assert f"next: edit them, then `pkgtools port --continue --write -o {output}`" in waiting.out
    assert f"`pkgtools port --continue --write -o {output} --accept`" in waiting.out
    where = ("port", "--continue", "--write", "--catalog", small.catalog)
    left = call(*where, "--accept")
    assert left.code == 3
    assert f"`pkgtools port --continue -o {output} --write --catalog " in left.err
    assert "accept the proposals" not in left.err
    (output.with_name("v1.1.port") / "conflicts/src/widget/c.txt").write_text("VALUE = 3\n")
    another = output.with_name("other.port")
    another.mkdir()
    several = call(*where)
    waiting_ports = f"several ports wait: {another}, {output.with_name('v1.1.port')}"
    assert (several.code, waiting_ports in several.err) == (2, True)
    another.rmdir()
    done = call(*where)
    assert done.code == 0, done.err
    assert f"next: `pkgtools lock --target v1.1 --catalog {small.catalog}`" in done.out


def test_all_proposals_are_taken(small: Small, tmp_path: Path) -> None:
    folder = started(small, tmp_path / "new")
    left = call("port", "--continue", "--accept", "-o", tmp_path / "new")
    assert left.code == 3
    assert (folder / "a.py").read_text() == CALLS_BOTH
    assert "c.txt" in left.err
    assert "a.py" not in left.err
    (folder / "c.txt").write_text("VALUE = 3\n")
    done = call("port", "--continue", "-o", tmp_path / "new", "--json")
    assert done.code == 0, done.err
    hunks = [hunk for patch in done.facts["steps"][0]["patches"] for hunk in patch["hunks"]]
    rules = [hunk["rules"] for hunk in hunks]
    taken = ["accepted-proposal", "words"]
    assert (rules, [hunk["drops"] for hunk in hunks]) == ([taken, taken, ["by-hand"]], [False] * 3)
    made = small.made(tmp_path / "new", "1.1")
    assert made["src/widget/b.py"] == CALLS_BOTH.encode()


def test_what_a_proposal_drops_is_named(tmp_path: Path) -> None:
    """Before it is accepted, and after: the new series has another change of the patch only."""
    files = {"a.py": CHECKED, "b.py": VALUE, "c.py": "X = 1\n"}
    small = make_small(
        tmp_path / "small",
        {"1.0": files, "1.1": {**files, "a.py": REWRITTEN, "c.py": "X = 3\n"}},
        [("one", {"a.py": CHECKED_OURS, "b.py": "VALUE = 2\n", "c.py": "X = 2\n"})],
    )
    asked = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new")
    assert asked.code == 3
    assert "proposal 1 (upstream-rewrote, drops the patch's change):" in asked.out
    assert "proposal 1 (as-patched, drops upstream's change):" in asked.out
    assert "1 of the proposals would drop the patch's change" in asked.out
    done = call("port", "--continue", "--accept", "-o", tmp_path / "new")
    assert done.code == 0
    told = "dropped: the change of 0001-one.patch at src/widget/a.py:3 (upstream-rewrote)\n"
    assert told in done.out
    made = {"src/widget/b.py": b"VALUE = 2\n", "src/widget/c.py": b"X = 2\n"}
    assert small.made(tmp_path / "new", "1.1") == made


@pytest.mark.parametrize("named", ["src/widget/b.py", "widget/b.py", "b.py", "on disk"])
def test_the_proposals_of_one_file_are_taken(named: str, small: Small, tmp_path: Path) -> None:
    folder = started(small, tmp_path / "new")
    name = str(folder / "b.py") if named == "on disk" else named
    done = call("port", "--continue", "--accept", name, "-o", tmp_path / "new")
    assert done.code == 3
    assert (folder / "b.py").read_text() == CALLS_BOTH
    assert "||||||| proposal 1\n" in (folder / "a.py").read_text()
    state = json.loads((tmp_path / "new.port/port.json").read_text())
    assert [waiting["accepted"] for waiting in state["waiting"]] == [[], [1], []]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--continue", "--accept", "src/widget/c.txt"], "no conflict with a proposal is in it"),
        (["--continue", "--accept", "src/widget/d.py"], "names no files with conflicts"),
        (["--continue", "--accept", ".py"], "names no files with conflicts"),
        (["--abort", "--accept"], "stand alone"),
        (["--series", "one", "--to", "1.1", "--accept"], "--accept goes with --continue"),
    ],
)
def test_what_cannot_be_accepted(
    arguments: list[str], message: str, small: Small, tmp_path: Path
) -> None:
    started(small, tmp_path / "new")
    run = small.port if "--series" in arguments else partial(call, "port")
    refused = run(*arguments, "-o", tmp_path / "new")
    assert refused.code == 2
    assert message in refused.err


def test_a_conflict_that_was_edited_keeps_its_edits(small: Small, tmp_path: Path) -> None:
    """The person left the proposal's section and took the conflict's markers away."""
    folder = started(small, tmp_path / "new")
    path = folder / "a.py"
    edited = CALLS_BOTH.replace("    end", "||||||| proposal 1\nx\n=======\n    end")
    path.write_text(edited)
    call("port", "--continue", "--accept", "-o", tmp_path / "new")
    assert path.read_text() == edited


def test_a_conflict_that_a_side_resolves_leaves_nothing_of_its_proposal(
    small: Small, tmp_path: Path
) -> None:
    """Scripts and editors take all lines from the first marker to the last."""
    folder = started(small, tmp_path / "new")
    for path in folder.iterdir():
        sides = rb"^<{7} .*\n(?:.*\n)*?={7}\n((?:.*\n)*?)>{7} .*\n"
        path.write_bytes(re.sub(sides, rb"\1", path.read_bytes(), flags=re.MULTILINE))
    done = call("port", "--continue", "-o", tmp_path / "new")
    assert done.code == 0, done.err
    assert done.out.count("(by-hand)") == 3


def test_a_line_like_a_marker_is_never_where_a_proposal_ends() -> None:
    text = b"Title\n=======\n"
    marked = b"<<<<<<< ours\na\n||||||| base\n||||||| proposal 1\n%s=======\nb\n>>>>>>> theirs\n"
    assert accept_proposals(marked % text) == (marked % text, [])
    assert accept_proposals(marked % b"Title\n") == (b"Title\n", [1])


def proposed(base: str, ours: str, theirs: str) -> Merge:
    sides = base.encode(), ours.encode(), theirs.encode()
    merged = merge(*sides, python=True)
    assert merged.conflicts
    return with_proposals(merged, sides, OtherFiles())


def test_a_proposal_must_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkgtools.merge.proposals.merge_words", lambda *_: b"    if theirs(x)\n")
    rules = [p.rule for p in proposed(CALLS, CALLS_OURS, CALLS_THEIRS).proposals]
    assert rules == ["as-patched"]


def test_a_proposal_must_know_its_names() -> None:
    """Upstream took the name away that the patch's line uses."""
    base = "def f(x):\n    y = x + 1\n    one(y)\n    end()\n"
    ours = base.replace("    end", "    ours(y)\n    end")
    theirs = "def f(x):\n    one(x)\n    theirs(x)\n    end()\n"
    merged = proposed(base, ours, theirs)
    assert [p.rule for p in merged.proposals] == ["left-out"]
    assert filled(merged.data, merged.proposals).decode() == theirs


def test_what_upstream_adds_in_another_form_is_not_proposed_twice() -> None:
    base = "class A:\n    def __init__(self, a, b):\n        self.a = a\n"
    ours = base.replace("a, b", "a, saver: int, b")
    theirs = base.replace("a, b", "a, saver=False, b=None")
    assert all(p.text.count(b"saver") == 1 for p in proposed(base, ours, theirs).proposals)


LONGER = CALLS.replace("    end", "    new(x)\n    more(x)\n    end")
SHORTER = CALLS.replace("    end", "    more(x)\n    end")
TOTAL = CALLS.replace("    end", "    total = end(x, one=1, two=2)\n    end")
TOTAL_BY_UPSTREAM = CALLS.replace("    end", "    total = end(x, one=1, two=3)\n    end")
SENT = CALLS.replace("    end", "    x.sent_tokens = count_all(x)\n    end")
SENT_BY_UPSTREAM = CALLS.replace("    end", "    note_sent_tokens(x)\n    end")
CHECKED = (
    "def f(x):\n    if x.one > x.two:\n        raise ValueError(x.one)\n    keep(x)\n    return x\n"
)
CHECKED_OURS = CHECKED.replace("        raise", "        log(x)\n        raise")
HALVES = CHECKED_OURS.replace("return x\n", "return x + 1\n")
HALF_REWRITTEN = "def f(x):\n    check_order(x)\n    keep(x)\n    return x * 2\n"
ROWS = "X = [\n    a[0],\n    b[0],\n]\n"
ROWS_OURS = ROWS.replace("\n]", "\n    c[0],\n]")
ROWS_THEIRS = ROWS.replace("[0],", "[0].copy(),")
ROWS_MADE = ROWS_OURS.replace("[0],", "[0].copy(),")
RECORDS = "".join(
    f"@dataclass\nclass {n}:\n    x: int\n\n\n" for n in ("Base", "A(Base)", "B(Base)")
)
RECORD = "@dataclass\nclass C(Base):\n    y: int\n\n\n"
KEYED = RECORDS.replace("@dataclass\n", "").replace("(Base)", "(Base, kw_only=True)")
CLASS = """\
class A:
    def __init__(self, size, kind=None, width=0):
        self.width = width
        self.weight = parameter(ones(size, kind))
        self.end = size
"""
CLASS_OURS = CLASS.replace(", kind=None, width=0", ", cast=True").replace("size, kind)", "size)")
CLASS_OURS = CLASS_OURS.replace("        self.width = width\n", "")
CLASS_THEIRS = CLASS.replace(
    "        self.weight = parameter(ones(size, kind))\n",
    "        if size:\n            self.weight = parameter(ones(size, kind))\n"
    "        else:\n            self.weight = ones(size, kind)\n",
)
NAMED = "def f(x):\n    one(x)\n    two(x)\n    three(x)\n    end(x)\n"
NAMED_OURS = NAMED.replace("    two", "    total = 1\n    two")
NAMED_THEIRS = NAMED.replace("    end", "    total = 2\n    end")
SUM = """\
def f(x, y, z, a):
    if y:
        x = (
            x
            + y.to(a)
            + (z.to(a) if z else 0)
        )
        if a:
            y = x.copy()
        else:
            y = x
    return x
"""
SUM_ADDED = "        x = x + y.to(a)\n        if z:\n            x = x + z.to(a)\n"
SUM_THEIRS = f"def f(x, y, z, a):\n    if y:\n{SUM_ADDED}{SUM[SUM.index('        if a') :]}"
SUM_OURS = f"def f(x, y, z, a):\n    if y and a:\n{SUM_ADDED}        y = x\n    return x\n"
REWRITTEN = "def f(x):\n    check_order(x)\n    keep(x)\n    return x\n"


@pytest.mark.parametrize(
    ("sides", "rule", "made"),
    [
        ((CALLS, LONGER, SHORTER), "ours-has-both", LONGER),
        ((CALLS, CALLS_OURS, CALLS_THEIRS), "words", CALLS_BOTH),
        ((CALLS, TOTAL, TOTAL_BY_UPSTREAM), "upstream-has-both", TOTAL_BY_UPSTREAM),
        ((CALLS, SENT, SENT_BY_UPSTREAM), "upstream-has-another", SENT_BY_UPSTREAM),
        # No word is new: both calls stay.
        (
            (CALLS, CALLS_OURS, CALLS.replace("    end", "    one(x)\n    end")),
            "words",
            CALLS.replace("    end", "    one(x)\n    ours(x)\n    end"),
        ),
        ((CHECKED, CHECKED_OURS, REWRITTEN), "upstream-rewrote", REWRITTEN),
        # What is beside rewritten lines of the function goes with these.
        ((CHECKED, HALVES, HALF_REWRITTEN), "upstream-rewrote", HALF_REWRITTEN),
        # The lines of the patch have all that upstream adds, whatever words it took for that.
        ((SUM, SUM_OURS, SUM_THEIRS), "ours-has-both", SUM_OURS),
        # Upstream gives the name another value, in another place.
        ((NAMED, NAMED_OURS, NAMED_THEIRS), "upstream-has-another", NAMED_THEIRS),
        # What upstream does to each line, it would do to the patch's.
        ((ROWS, ROWS_OURS, ROWS_THEIRS), "words", ROWS_MADE),
        # It awaits as the sides do, although the patch awaits in another place.
        (
            (ROWS, ROWS_OURS + "\n\ndef f():\n    yield 1\n", ROWS_THEIRS),
            "words",
            ROWS_MADE + "\n\ndef f():\n    yield 1\n",
        ),
        # Nothing speaks for one of two values: the patch's, which a series is there for.
        (("X = a\n", "X = b\n", "X = c\n"), "as-patched", "X = b\n"),
    ],
)
def test_the_likeliest_proposal(sides: tuple[str, str, str], rule: str, made: str) -> None:
    merged = proposed(*sides)
    assert {proposal.rule for proposal in merged.proposals} == {rule}
    assert filled(merged.data, merged.proposals).decode() == made


def test_a_class_of_the_patch_follows_those_beside_it() -> None:
    """The base class and the others are no dataclasses any more."""
    ours = RECORDS.replace("@dataclass\nclass B(", f"{RECORD}@dataclass\nclass B(")
    merged = proposed(RECORDS, ours, KEYED)
    made = KEYED.replace("class B(", "class C(Base, kw_only=True):\n    y: int\n\n\nclass B(")
    assert filled(merged.data, merged.proposals).decode() == made


def test_what_the_patch_removes_goes_from_what_upstream_copied() -> None:
    merged = proposed(CLASS, CLASS_OURS, CLASS_THEIRS)
    made = CLASS_THEIRS.replace(", kind=None, width=0", ", cast=True").replace("size, kind", "size")
    wanted = made.replace("        self.width = width\n", "")
    assert filled(merged.data, merged.proposals).decode() == wanted


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "made"),
    [
        ("f(a)\n", "f(a, b)\n", "g(a)\n", "g(a, b)\n"),
        ("f(a, 1)\n", "f(b, 1)\n", "f(a, 2)\n", "f(b, 2)\n"),
        ("f(a)\n", "f(b)\n", "f(c)\n", None),  # both change one word
        ("f(a)\n", "f(b)\n", "f(b)\n", "f(b)\n"),
        # Ours comes behind what theirs puts at the same place.
        ("a\nd\n", "a\nb\nd\n", "a\nc\nd\n", "a\nc\nb\nd\n"),
        # The lines that ours adds are indented as those around them in theirs.
        ("a\nd\n", "a\nb\nd\n", "if c:\n    a\n    d\n", "if c:\n    a\n    b\n    d\n"),
        ("if c:\n    a\n    d\n", "if c:\n    a\n    b\n    d\n", "a\nd\n", "a\nb\nd\n"),
        # One takes away what the other one replaces.
        ("a b c\n", "x\n", "a c\n", "x\n"),
        ("a b c\n", "a x c\n", "\n", None),
        # Upstream moves one line in and the other one stays: the new one goes with the deeper.
        ("  a\nd\n", "  a\n  b\nd\n", "    a\nd\n", "    a\n    b\nd\n"),
    ],
)
def test_words(base: str, ours: str, theirs: str, made: str | None) -> None:
    merged = merge_words(base.encode(), ours.encode(), theirs.encode())
    assert (merged.decode() if merged is not None else None) == made


def test_one_conflict_asks_nothing_of_other_files(tmp_path: Path) -> None:
    """The function waits for a person; what calls it in another file fits what it may become."""
    base = "def f(x):\n    return x * 1\n"
    ours = "def f(x, ours=1):\n    return x * ours\n"
    theirs = "def f(x):\n    return theirs(x)\n\n\ndef theirs(x):\n    return x\n"
    call_f = "from widget.a import f\n\nONE = 1\nX = f(1)\n"
    small = make_small(
        tmp_path / "small",
        {"1.0": {"a.py": base, "b.py": call_f}, "1.1": {"a.py": theirs, "b.py": "# b\n" + call_f}},
        [("one", {"a.py": ours, "b.py": call_f.replace("f(1)", "f(1, ours=2)")})],
    )
    done = small.port("--series", "one", "--to", "1.1", "-o", tmp_path / "new", "--json")
    outcomes = {h["path"]: h["outcome"] for h in done.facts["steps"][0]["patches"][0]["hunks"]}
    assert outcomes == {"src/widget/a.py": "conflict", "src/widget/b.py": "moved"}
    (tmp_path / "new.port/conflicts/src/widget/a.py").write_text(theirs)
    again = call("port", "--continue", "-o", tmp_path / "new")
    assert again.code == 3
    assert "it has no parameter `ours`" in again.out
