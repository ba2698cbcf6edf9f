"""Merging by words what only the new package can prove."""

from __future__ import annotations

import pytest

from pkgtools.merge import OtherFiles, merge

_USE = "\n\ndef f(x):\n    return parse(x)\n"
_BASE = f"from p.a import parse{_USE}"
_OURS = f"from p.a.fast import parse{_USE}"
_THEIRS = f"from p.b.a import parse{_USE}"
_JOINED = f"from p.b.a.fast import parse{_USE}"


def _merged(new: dict[str, bytes], ours: str = _OURS) -> tuple[bytes, list[str | None]]:
    others = OtherFiles(old={"p.a": b"parse = 1"}.get, new=new.get, package="p")
    merged = merge(_BASE.encode(), ours.encode(), _THEIRS.encode(), python=True, others=others)
    return merged.data, [rule for c in merged.chunks for rule in (c.rules or (c.reason,))]


def test_an_import_that_both_change_is_joined_if_only_the_joined_one_exists() -> None:
    new = {"p.b.a": b"parse = 1", "p.b.a.fast": b"def parse(x): ..."}
    assert _merged(new) == (_JOINED.encode(), ["joined-import"])


@pytest.mark.parametrize(
    "new",
    [
        {"p.b.a": b"parse = 1"},
        {"p.b.a": b"parse = 1", "p.b.a.fast": b"read = 1"},
        {"p.b.a": b"parse = 1", "p.b.a.fast": b"parse = 2", "p.a.fast": b"parse = 3"},
        {"p.b.a": b"parse = 1", "p.b.a.fast": b"parse = 2", "p.a.fast.parse": b"", "p.a.fast": b""},
        {"p.b.a": b"parse = 1", "p.b.a.fast": b"def read(parse): ..."},
        {},
    ],
    ids=[
        "no module",
        "no name",
        "ours is there, too",
        "ours is a module there",
        "only a parameter",
        "nothing is known",
    ],
)
def test_an_import_that_both_change_is_a_conflict_otherwise(new: dict[str, bytes]) -> None:
    data, told = _merged(new)
    assert data == _THEIRS.encode()
    assert told == ["both change the same expression"]


def test_an_import_beside_other_code_is_a_conflict() -> None:
    new = {"p.b.a": b"parse = 1", "p.b.a.fast": b"def parse(x): ..."}
    data, _ = _merged(new, _OURS.replace("parse\n", "parse; run()\n", 1))
    assert data == _THEIRS.encode()


@pytest.mark.parametrize(
    ("old", "new", "is_right"),
    [
        (b"", b"c = e = 1", True),
        (b"", b"c = 1  # not e\n", False),
        (b"from p.b import *", b"c = 1\ndef e(): ...", True),
        (b"def e(): ...", b"c = e = 1", False),
    ],
    ids=["moved", "not moved", "a shim is left", "another one of that name"],
)
def test_a_name_is_imported_from_a_moved_module_only_if_that_has_it(
    old: bytes, new: bytes, *, is_right: bool
) -> None:
    base, theirs = b"from p.a import c\n\nX = c\n", b"from p.b import c\n\nX = c\n"
    ours = base.replace(b"import c", b"import (\n    c,\n    e,\n)")
    made = theirs.replace(b"import c", b"import (\n    c,\n    e,\n)")
    read = {"p.a": old, "p.b": new}.get
    merged = merge(base, ours, theirs, python=True, others=OtherFiles(new=read, package="p"))
    assert merged.data == (made if is_right else theirs)
    assert bool(merged.conflicts) is not is_right


_FLAGS = (
    "import os\nfrom p.env import envs\n\nx = not bool(os.environ.get('A', ''))\n",
    "import os\nfrom p.env import envs\n\nx = not envs.environ.get()\n",
    "from p.env import envs\n\nx = not bool(os.A.get('A', ''))\n",
)


@pytest.mark.parametrize(
    ("module", "is_joined"),
    [
        ("class Envs:\n    A = 1\n\n\nenvs = Envs()\n", True),
        ("class Envs:\n    A = environ = 1\n\n\nenvs = Envs()\n", False),
        ("class Envs(Base):\n    A = 1\n\n\nenvs = Envs()\n", False),
        ("class Envs:\n    A = 1\n    def __getattr__(self, n): ...\n\n\nenvs = Envs()\n", False),
        ("class Envs:\n    A = 1\n\n\nenvs = Envs()\nenvs = make()\n", False),
    ],
)
def test_an_attribute_is_joined_with_an_owner_if_neither_exists_alone(
    module: str, *, is_joined: bool
) -> None:
    others = OtherFiles(new={"p.env": module.encode()}.get, package="p")
    merged = merge(*(text.encode() for text in _FLAGS), python=True, others=others)
    assert (not merged.conflicts) is is_joined
    made = "from p.env import envs\n\nx = not envs.A.get()\n"
    assert merged.data.decode() == (made if is_joined else _FLAGS[2])


_IMPORTED = (
    "import os\n\n\ndef f(run):\n    x = run.args.graph\n    return x\n",
    "import os\n\n\ndef f(run):\n    x = context().args.graph\n    return x\n",
    "import os\nfrom p.env import context\n\n\ndef f(run):\n    x = run.exec.graph\n    return x\n",
)


@pytest.mark.parametrize(
    ("side", "old", "new", "is_joined"),
    [
        (1, "", "", True),
        (1, "import os", "from p.env import context", False),
        (1, "f(run)", "f(run, context)", False),
        (1, "context()", "other()", False),
        (2, "return x", "return context(x)", False),
        (2, "import os\n", "import os\n\nprint(context)\n", False),
        (2, "import context", "import other", False),
        (0, "import os", "import os, context", False),
    ],
)
def test_what_uses_an_import_is_joined_with_upstream_which_imports_it_for_nothing(
    side: int, old: str, new: str, *, is_joined: bool
) -> None:
    texts = [*_IMPORTED]
    texts[side] = texts[side].replace(old, new)
    others = OtherFiles(new={"p.env": b"def context(): ..."}.get, package="p")
    merged = merge(*(text.encode() for text in texts), python=True, others=others)
    assert (not merged.conflicts) is is_joined
    joined = "    x = context().exec.graph\n"
    assert (joined in merged.data.decode()) is is_joined


def test_lines_that_get_deeper_are_not_joined() -> None:
    base = "def f(a):\n    log(b)\n    c = b.n\n"
    ours = base.replace("log(b)", "b = h(b)")
    theirs = "from p.env import h\n\n\ndef f(a):\n    if a:\n        log(b)\n        c = b.n\n"
    others = OtherFiles(new={"p.env": b"def h(x): ..."}.get, package="p")
    merged = merge(base.encode(), ours.encode(), theirs.encode(), python=True, others=others)
    assert merged.conflicts


def test_a_comment_inside_of_an_attribute_is_no_part_of_it() -> None:
    sides = [
        text.replace("x = not ", "x = (").replace("\n\nx", "\nfrom p import b\n\nx").rstrip()
        + ", b  # here\n    .c)\n"
        for text in _FLAGS
    ]
    module = b"class Envs:\n    A = 1\n\n\nenvs = Envs()\n"
    others = OtherFiles(new={"p.env": module}.get, package="p")
    merged = merge(*(text.encode() for text in sides), python=True, others=others)
    assert b"x = (envs.A.get(), b  # here\n    .c)\n" in merged.data
