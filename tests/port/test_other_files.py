"""What a patch and upstream do to different files of one package: right alone, wrong together."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pkgtools.authoring.applied import AppliedPatch
from pkgtools.authoring.gitdiff import FileChange
from pkgtools.blob import EXECUTABLE, REGULAR, SYMLINK, Blob
from pkgtools.catalog import Upstream
from pkgtools.port.outcomes import mode_of
from pkgtools.port.step import PortStep

if TYPE_CHECKING:
    from collections.abc import Mapping

_UPSTREAM = Upstream("kit", None, "kit", "kit", "")
_HELPER = """\
import os

def helper(a):
    one(a)
    two(a)
    return a

def main(a):
    x = helper(a)
    return x
"""
_MAIN = "import os\n\ndef main(a):\n    return a\n"
_MOVED = "def helper(a):\n    one(a)\n    two(a)\n    return a\n"
_USER = "import os\n\ndef use(a):\n    s(a)\n    t(a)\n    return a\n"
_USES = _USER.replace("import os", "import os\nfrom kit.h import helper").replace(
    "t(a)", "helper(a)"
)
_INNER = "from .h import helper\n\ndef f(a):\n    s(a)\n    t(a)\n    u(a)\n    return helper(a)\n"
_BIG = """\
class Big:
    def __init__(self, a):
        self.a = a
        self.b = 2

    def one(self):
        s(self.a)
        return self.b

    def two(self):
        u(self.b)
        v(self.b)
        return self.b
"""
_BIG_NOW = _BIG[: _BIG.index("\n    def two")]
_TWO = _BIG[_BIG.index("    def two") :]
_PAIR_A = "class C:\n    def run(self, a):\n        one(a)\n        two(a)\n        return a\n"
_PAIR = f"""{_PAIR_A.replace("C:", "A:")}
    x = 1

class B:
    def run(self, other):
        for b in s(other, deep=True):
            t(b, other)
            u(b.left, b.right)
        two(a)

    x = 2
"""
_STAR = "from .h import *\n\ndef use(a):\n    s(a)\n    return a\n"
_LAZY = """\
import importlib
_FROM = {
    "Big": ".h",
    "Part": ".m",
}

def __getattr__(name):
    return getattr(importlib.import_module(_FROM[name], __name__), name)
"""
_LAZILY = {"__init__.py": _LAZY, "h.py": _BIG, "m.py": "class Part:\n    x = 1\n", "u.py": _USER}
_NEEDS_BIG = {"u.py": _USER.replace("import os", "from kit import Big").replace("t(a)", "Big(a)")}
_SUB = "from kit.h import Big\n\nclass New(Big):\n    def one(self):\n        return 1\n"
_RECORD = "@dataclass\nclass P:\n    a: int = 0\n    b: int = 0\n"
_MANAGER = "@contextmanager\ndef P(a, b):\n    yield a\n"
_GIVES = {"u.py": _USER.replace("import os", "from kit.h import P").replace("t(a)", "t(P(1, 2))")}
_CACHE = "class Cache:\n    def put(self, k, v):\n        send(k, v)\n        return k\n"
_ABSTRACT = _CACHE.replace("    def", "    @abstractmethod\n    def")
_PART = f"class Part:\n    def __init__(self, b):\n        self.b = b\n\n{_TWO}"


@dataclass
class _Files:
    """A source of some files of the package."""

    label: str
    files: Mapping[str, bytes]
    upstream: Upstream = field(default=_UPSTREAM)

    def read(self, path: str) -> Blob | None:
        return Blob(self.files[path]) if path in self.files else None

    def paths(self, prefix: str) -> dict[str, bytes]:
        return {path: data for path, data in self.files.items() if path.startswith(prefix)}


@dataclass
class _Case:
    name: str
    old: Mapping[str, str | bytes]
    ours: Mapping[str, str | bytes | None]
    """What the patch writes; None for a file that it removes."""
    new: Mapping[str, str | bytes]
    reason: str | None
    """A part of the question; None where there is none."""
    renames: dict[str, str] = field(default_factory=dict)


def _encoded(files: Mapping[str, Any]) -> dict[str, bytes]:
    texts = {f"kit/{n}": t.encode() if isinstance(t, str) else t for n, t in files.items()}
    return {"kit/__init__.py": b"", **texts}


CASES = (
    _Case(
        "a member of a module that upstream moves",
        {"h.py": _HELPER, "u.py": _USER},
        {"u.py": _USER.replace("import os", "from kit import h").replace("t(a)", "h.helper(a)")},
        {"h.py": _MAIN, "k.py": _MOVED, "u.py": _USER},
        "kit.h has no helper any more",
    ),
    _Case(
        "a member of a class that upstream renames",
        {"h.py": "class Mode(Enum):\n    A = 1\n    B = 2\n", "u.py": _USER},
        {"u.py": _USER.replace("import os", "from kit.h import Mode").replace("t(a)", "t(Mode.B)")},
        {"h.py": "class Mode(Enum):\n    A = 1\n    BETA = 2\n", "u.py": _USER, "x.py": "B = 1\n"},
        "`Mode` has no `B` any more",
    ),
    _Case(
        "a base class that upstream makes a function",
        {"h.py": _BIG},
        {"n.py": "from kit.h import Big\n\nclass New(Big):\n    pass\n"},
        {"h.py": "def Big(a):\n    return a\n"},
        "the base class `Big` is a function now",
    ),
    _Case(
        "an argument that a base class needs",
        {"h.py": _BIG},
        {
            "n.py": "from kit.h import Big\n\nclass New(Big):\n    def __init__(self, a):\n"
            "        super().__init__(a)\n"
        },
        {"h.py": _BIG.replace("(self, a)", "(self, a, b)")},
        "`super().__init__` does not take this call any more: it needs `b`",
    ),
    _Case(
        "a relative import in a file that moves into a package",
        {"p/r.py": _INNER, "p/h.py": _HELPER, "p/q.py": _USER},
        {"p/r.py": _INNER.replace("    u(a)", "    from .q import use\n    use(a)")},
        {"p/s/r.py": _INNER.replace(".h", "..h"), "p/h.py": _HELPER, "p/q.py": _USER},
        "there is no module kit.p.s.q",
    ),
    _Case(
        "a method that upstream moves into a class without what it uses",
        {"h.py": _BIG},
        {"h.py": _BIG.replace("        v(self.b)", "        v(self.b)\n        self.one()")},
        {"h.py": _BIG_NOW, "m.py": _PART},
        "the method is in `Part` now, which has no `one`",
    ),
    _Case(
        "a method that upstream moves into a mixin",
        {"h.py": _BIG},
        {"h.py": _BIG.replace("        v(self.b)", "        v(self.b)\n        self.one()")},
        {
            "h.py": "from kit.m import Mixin\n\n" + _BIG_NOW.replace("Big:", "Big(Mixin):"),
            "m.py": f"class Mixin:\n{_TWO}",
        },
        None,
    ),
    _Case(
        "one of two methods of a name that moves to another file",
        {"h.py": _PAIR},
        {"h.py": _PAIR.replace("  one(a)", "  zero(a)").replace("two(a)\n\n", "three(a)\n\n")},
        {"h.py": "class A:\n    x = 1\n\nclass B:\n    x = 2\n", "m.py": _PAIR_A},
        "upstream removed the function run",
    ),
    _Case(
        "a name that the module exports",
        {"h.py": '__all__ = ["main"]\n' + _HELPER},
        {"h.py": '__all__ = ["main", "helper"]\n' + _HELPER},
        {"h.py": '__all__ = ["main"]\n' + _MAIN},
        "`helper` is not defined there any more",
    ),
    _Case(
        "a function that the patch renames and upstream begins to use",
        {"h.py": _HELPER, "u.py": _USER},
        {"h.py": _HELPER.replace("helper", "aid")},
        {"h.py": _HELPER, "u.py": _USES},
        "upstream begins to use `helper` in kit.u",
    ),
    _Case(
        "a function that the patch gives a parameter and upstream begins to call",
        {"h.py": _HELPER, "u.py": _USER},
        {"h.py": _HELPER.replace("helper(a)", "helper(a, b)")},
        {"h.py": _HELPER, "u.py": _USES},
        "upstream begins to call `helper` in kit.u: it needs `b`",
    ),
    _Case(
        "a function that the patch gives a default and upstream begins to call",
        {"h.py": _HELPER, "u.py": _USER},
        {"h.py": _HELPER.replace("def helper(a)", "def helper(a, b=1)")},
        {"h.py": _HELPER, "u.py": _USES},
        None,
    ),
    _Case(
        "a function that the patch changes and upstream begins to call in the same file",
        {"h.py": _HELPER},
        {"h.py": _HELPER.replace("helper(a)", "helper(a, b)")},
        {"h.py": _HELPER + "\n\ndef more(a):\n    return helper(a)\n"},
        "`helper` does not take this call any more: it needs `b`",
    ),
    _Case(
        "a method that the patch renames and upstream begins to call",
        {"h.py": _BIG},
        {"h.py": _BIG.replace("one", "eins")},
        {"h.py": _BIG.replace("        v(", "        self.one()\n        v(")},
        "upstream begins to call `one` in kit.h: the patch takes it away",
    ),
    _Case(
        "a file that the patch removes and upstream begins to import",
        {"h.py": _HELPER, "u.py": _USER},
        {"h.py": None},
        {"h.py": _HELPER, "u.py": _USES},
        "upstream begins to import it in kit.u",
    ),
    _Case(
        "a file that both rename",
        {"h.py": _HELPER},
        {"i.py": _HELPER.replace("two", "zwei")},
        {"j.py": _HELPER.replace("one", "eins")},
        "the patch renames the file to kit/i.py, and upstream to kit/j.py",
        {"i.py": "h.py"},
    ),
    _Case(
        "a module beside a package of its name",
        {"h.py": _HELPER},
        {"n.py": "X = 1\n"},
        {"h.py": _HELPER, "n/__init__.py": "Y = 1\n"},
        "upstream has kit/n/__init__.py, which is a module of that name as well",
    ),
    *(
        _Case(
            f"a name from `import *` {how}",
            {"h.py": _HELPER, "u.py": _STAR},
            {"u.py": _STAR.replace("s(a)", "s(helper(a))")},
            {"h.py": f"{listed}\n{_HELPER}", "u.py": _STAR},
            reason,
        )
        for how, listed, reason in (
            ("that upstream leaves out", '__all__ = ["main"]', "no `import *` gives `helper`"),
            ("that upstream lists", '__all__ = [\n    "helper",  # for u\n]', None),
            ("from a list that is computed", "__all__ = [*globals()]", None),
            ("from two lists", '__all__ = ["main"]\n__all__ += ["helper"]', None),
        )
    ),
    _Case(
        "a name that a package has from `import *`",
        {"p/__init__.py": "from .h import *\n", "p/h.py": _HELPER, "u.py": _USER},
        {
            "u.py": _USER.replace("import os", "from kit.p import helper").replace(
                "t(a)", "helper(a)"
            )
        },
        {
            "p/__init__.py": "from .h import *\n",
            "p/h.py": '__all__ = ["main"]\n' + _HELPER,
            "u.py": _USER,
        },
        "kit.p has no helper any more",
    ),
    *(
        _Case(f"a lazy import {how}", _LAZILY, _NEEDS_BIG, {**_LAZILY, **new}, reason)
        for how, new, reason in (
            (
                "that upstream takes away",
                {"__init__.py": _LAZY.replace('"Big": ".h"', "# Big is in kit.h")},
                "kit has no Big any more",
            ),
            (
                "from another module without it",
                {"__init__.py": _LAZY.replace(".h", ".m")},
                "kit has no Big any more",
            ),
            (
                "from another module",
                {
                    "__init__.py": _LAZY.replace('".h"', '("kit.n", "Large")'),
                    "n.py": _BIG.replace("Big", "Large"),
                },
                None,
            ),
            (
                "of what needs another argument",
                {"h.py": _BIG.replace("(self, a)", "(self, a, b)")},
                "`Big` does not take this call any more: it needs `b`",
            ),
        )
    ),
    *(
        _Case(f"a {what} that upstream marks", {"h.py": old}, {"n.py": _SUB}, {"h.py": new}, reason)
        for what, old, new, reason in (
            ("base class", _BIG, "@final\n" + _BIG, "the base class `Big` is final now"),
            (
                "method of a base class",
                _BIG,
                _BIG.replace("    def one", "    @typing.final\n    def one"),
                "the method that `one` overrides is final now",
            ),
            ("method beside", _BIG, _BIG.replace("    def two", "    @final\n    def two"), None),
            ("class anew", "@final\n" + _BIG, "@final\n" + _BIG_NOW, None),
        )
    ),
    *(
        _Case(
            f"a call of {what}",
            {"h.py": old, "u.py": _USER},
            _GIVES,
            {"h.py": new, "u.py": _USER},
            reason,
        )
        for what, old, new, reason in (
            (
                "a class that upstream gives its fields by their names alone",
                _RECORD,
                _RECORD.replace("dataclass", "dataclass(kw_only=True)"),
                "it takes 0 positional arguments at most, not 2",
            ),
            ("a class that upstream documents", _RECORD, _RECORD + "    # fields\n", None),
            ("a context manager", _MANAGER, _MANAGER.replace("@c", "@asyncc"), "asyncc"),
            (
                "a context manager that is none now",
                _MANAGER,
                _MANAGER[16:],
                "is no context manager",
            ),
            (
                "a function that is a context manager now",
                _MANAGER[16:],
                _MANAGER,
                "`@contextmanager` now",
            ),
        )
    ),
    _Case(
        "a field before one that upstream begins to give by its place",
        {"h.py": _RECORD, "u.py": _USER},
        {"h.py": _RECORD.replace("    b", "    x: int = 0\n    b")},
        {"h.py": _RECORD, **_GIVES},
        "upstream begins to call `P` in kit.u: its value for `b` would be that for `x`",
    ),
    *(
        _Case(
            f"a method of an object of any class: {what}",
            {"h.py": _CACHE, "u.py": _USER, **more},
            {"u.py": _USER.replace("t(a)", call), **ours},
            {"h.py": new, "u.py": _USER, **more, **moved},
            reason,
        )
        for what, call, new, reason, more, ours, moved in (
            ("one more", "a.put(1, 2)", _CACHE.replace("v)", "v, w)"), "it needs `w`", {}, {}, {}),
            ("less", "a.put(1, v=2)", _CACHE.replace(", v", ""), "no parameter `v`", {}, {}, {}),
            (
                "others",
                "self.a.put(1, 2)",
                _CACHE.replace("k, v", "v, k"),
                "its value for `k` would be that for `v`",
                {},
                {},
                {},
            ),
            (
                "a coroutine",
                "x = a.put(1, 2)",
                _CACHE.replace("  def put", "  async def put"),
                "no method `put` takes this call any more: is a coroutine function now",
                {},
                {},
                {},
            ),
            (
                "it moves",
                "a.put(1, 2)",
                _CACHE.replace("put", "set"),
                None,
                {},
                {},
                {"m.py": _CACHE},
            ),
            (
                "in another file",
                "a.put(1, 2)",
                "",
                "it needs `w`",
                {},
                {},
                {"m.py": _CACHE.replace("v)", "v, w)")},
            ),
            (
                "an abstract one",
                "a.put(1, 2)",
                _ABSTRACT.replace("v)", "v, w)"),
                "it needs `w`",
                {},
                {},
                {},
            ),
            (
                "one of two",
                "a.put(1, 2)",
                _CACHE.replace("v)", "v, w)"),
                None,
                {"m.py": _CACHE},
                {},
                {},
            ),
            ("with a default", "a.put(1, 2)", _CACHE.replace("v)", "v, w=1)"), None, {}, {}, {}),
            (
                "with a decorator",
                "a.put(1, 2)",
                _CACHE.replace("  def", "  @as_is\n    def"),
                None,
                {},
                {},
                {},
            ),
            (
                "upstream's call fits",
                "a.put(1, 2)",
                _CACHE.replace("v)", "v, w)"),
                None,
                {},
                {},
                {"u.py": _USER.replace("t(a)", "a.put(1, 2)")},
            ),
            (
                "the patch's own",
                "a.put(1, 2)",
                _CACHE.replace("v)", "v, w)"),
                None,
                {},
                {"n.py": _CACHE.replace("Cache", "Mine")},
                {},
            ),
            (
                "another package's",
                "os.put(1, 2)",
                _CACHE.replace("v)", "v, w)"),
                None,
                {},
                {},
                {},
            ),
            (
                "one of a dictionary",
                "a.update(1, 2)",
                _CACHE.replace("put", "update").replace("v)", "v, w)"),
                None,
                {"h.py": _CACHE.replace("put", "update")},
                {},
                {},
            ),
        )
    ),
    *(
        _Case(
            f"a method that the patch changes and upstream begins to call: {what}",
            {"h.py": _CACHE, "u.py": _USER, **more},
            {"h.py": _CACHE.replace(*patch)},
            {"h.py": _CACHE, "u.py": _USER.replace("t(a)", call), **more},
            reason,
        )
        for what, patch, call, reason, more in (
            (
                "one parameter more",
                ("v)", "v, w)"),
                "a.put(1, 2)",
                "upstream begins to call `put` in kit.u: it needs `w`",
                {},
            ),
            ("one with a default", ("v)", "v, w=1)"), "a.put(1, 2)", None, {}),
            ("with two classes", ("v)", "v, w)"), "a.put(1, 2)", None, {"m.py": _CACHE[:-1] + " "}),
            ("a call that did not fit", ("v)", "v, w)"), "a.put(1)", None, {}),
            ("a new name", ("put", "set"), "a.put(1, 2)", "upstream begins to call `put`", {}),
            ("its body", ("return k", "return v"), "a.put(1, 2)", None, {}),
        )
    ),
    _Case(
        "a letter in a file of another encoding",
        {"h.py": _HELPER},
        {"h.py": _HELPER.replace("    two(a)", "    two(a, 'é')")},
        {"h.py": b"# coding: latin-1\n" + _HELPER.encode()},
        "upstream changed the file's encoding",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_files_of_one_package(case: _Case) -> None:
    old, new = _Files("old", _encoded(case.old)), _Files("new", _encoded(case.new))
    changes = [
        FileChange(
            f"kit/{case.renames.get(name, name)}",
            f"kit/{name}",
            old.read(f"kit/{case.renames.get(name, name)}"),
            None if text is None else Blob(text.encode() if isinstance(text, str) else text),
        )
        for name, text in case.ours.items()
    ]
    patch: Any = SimpleNamespace(name="one.patch")
    step = PortStep(1, old, new, _UPSTREAM, lambda _: None)
    step.run([AppliedPatch(patch, tuple(changes))])
    reasons = [hunk.reason or "" for one in step.conflicts for hunk in one.hunks]
    assert bool(reasons) == (case.reason is not None), reasons
    assert not reasons or any(str(case.reason) in reason for reason in reasons), reasons


def test_a_patch_exchanges_two_names() -> None:
    one, two = Blob(b"def a(x):\n    return x\n"), Blob(b"def b(y):\n    return y\n")
    old = _Files("old", {"kit/a.py": one.data, "kit/b.py": two.data})
    new = _Files("new", {"kit/a.py": one.data, "kit/b.py": two.data + b"\n\nLATER = 1\n"})
    changes = (
        FileChange("kit/a.py", "kit/b.py", one, one),
        FileChange("kit/b.py", "kit/a.py", two, two),
    )
    patch: Any = SimpleNamespace(name="one.patch")
    step = PortStep(1, old, new, _UPSTREAM, lambda _: None)
    (ported,), report = step.run([AppliedPatch(patch, changes)])
    assert [told.outcome for told in report.patches] == ["unchanged"]
    later = new.read("kit/b.py")
    assert [(c.old_path, c.path, c.before, c.after) for c in ported.changes] == [
        ("kit/a.py", "kit/b.py", one, one),
        ("kit/b.py", "kit/a.py", later, later),
    ]
    for name, ours, theirs in (("kit/a.py", two, later), ("kit/b.py", one, one)):
        assert (step.files.read_old(name), step.files.read(name)) == (ours, theirs)


def test_an_answer_has_the_mode_that_the_sides_make() -> None:
    """A file with markers is neither a program nor a link."""
    program, plain = (Blob(b"one\n", mode) for mode in (EXECUTABLE, REGULAR))
    changed = Blob(b"two\n", EXECUTABLE)
    link = Blob(b"there", SYMLINK)
    assert mode_of(Blob(b"three\n"), program, changed, Blob(b"x\n", EXECUTABLE)) == EXECUTABLE
    assert mode_of(Blob(b"three\n"), program, changed, plain) == REGULAR
    assert mode_of(Blob(b"three\n"), plain, changed, plain) == EXECUTABLE
    assert mode_of(Blob(b"there"), Blob(b"h", SYMLINK), link, Blob(b"i", SYMLINK)) == SYMLINK
    assert mode_of(Blob(b"there\n"), plain, link, plain) == REGULAR
