"""What a patch's lines use, held against the whole package that they are merged into."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent
from typing import TYPE_CHECKING, Final

import pytest

from pkgtools.merge import How, OtherFiles, merge
from pkgtools.merge.syntax.blocks import parse
from pkgtools.merge.syntax.modules import Module

if TYPE_CHECKING:
    from collections.abc import Mapping

_BODY: Final = """\
    {imports}

    class Task({bases}):
        def start(self):
            self.ready = True

        def step(self, batch):
            self.last = batch
            for item in batch:
                self.ready = bool(item)
    {added}
        def stop(self):
            self.ready = False
    """


def _task(added: str = "", imports: str = "import os", bases: str = "object") -> str:
    text = dedent(_BODY).format(imports=imports, bases=bases, added=added or "\0")
    return text.replace("\0\n", "")


@dataclass(frozen=True)
class Case:
    """A patch on `pk.m`, the package before and after, and what is asked, if anything."""

    name: str
    added: str
    """Lines that the patch adds to `Task.step`."""
    old: Mapping[str, str]
    new: Mapping[str, str]
    asked: str | None
    imports: str = "import os"
    bases: str = "object"
    theirs: str | None = field(default=None)
    """`pk.m` of the new upstream; by default the old one with a first line more."""


_LOAD: Final = """\
    from far import load


    def make(path, **kwargs):
        print(path)
    {item}
        print("one")
        print("two")
        return load(path, {keyword}**kwargs)
    """


def _load(item: str = "", keyword: str = "") -> bytes:
    text = dedent(_LOAD).format(item=item or "\0", keyword=keyword)
    return text.replace("\0\n", "").encode()


@pytest.mark.parametrize("item", ['    kwargs["safe"] = 1', '    kwargs.setdefault("safe", 1)'])
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_call_gets_a_keyword_once(item: str, *, mirrored: bool) -> None:
    ours, theirs = _load(item), _load(keyword="safe=0, ")
    sides = (theirs, ours) if mirrored else (ours, theirs)
    (chunk,) = merge(_load(), *sides, python=True).conflicts
    assert chunk.reason == "a call would get the keyword `safe` twice, once in `**kwargs`"


@pytest.mark.parametrize(
    ("item", "keyword"),
    [
        ('    kwargs["safe"] = 1', "fast=0, "),
        ('    other = {}\n    other["safe"] = 1', "safe=0, "),
        ('    kwargs["safe"] = 1\n    print(kwargs.pop("safe"))', "safe=0, "),
    ],
)
def test_a_keyword_that_no_call_gets_twice_is_merged(item: str, keyword: str) -> None:
    merged = merge(_load(), _load(item), _load(keyword=keyword), python=True)
    assert not merged.conflicts
    assert merged.data == _load(item, keyword)


_OUT: Final = """\
    from dataclasses import dataclass
    @dataclass
    class Out:
        rids: list
        {field}total: int = 0
    """
_MIXIN: Final = "class Mixin:\n    def {}(self, n):\n        self.seen = n\n"


def _out(extra: str) -> str:
    return dedent(_OUT).format(field=extra + "\n    " if extra else "")


CASES: Final = (
    Case(
        "a method of a mixin that upstream renames",
        "        self.log_stats(1)",
        {"pk.stats": _MIXIN.format("log_stats")},
        {"pk.stats": _MIXIN.format("report_stats")},
        "`self.log_stats` is not there any more; new there: `report_stats`",
        "from pk.stats import Mixin",
        "Mixin",
    ),
    Case(
        "a method of a mixin's base class, two relative imports away",
        "        self.log_stats(1)",
        {
            "pk.a": "from .b import Base\nclass Mixin(Base): pass\n",
            "pk.b": "class Base:\n    def log_stats(self, n): pass\n",
        },
        {
            "pk.a": "from .b import Base\nclass Mixin(Base): pass\n",
            "pk.b": "class Base:\n    def other(self, n): pass\n",
        },
        "`self.log_stats` is not there any more",
        "from .a import Mixin",
        "Mixin",
    ),
    Case(
        "a method that went from a mixin to its base class",
        "        self.log_stats(1)",
        {"pk.stats": _MIXIN.format("log_stats")},
        {"pk.stats": "from pk.b import Mixin\n", "pk.b": _MIXIN.format("log_stats")},
        None,
        "from pk.stats import Mixin",
        "Mixin",
    ),
    Case(
        "an attribute that the patch makes of itself, and upstream took away",
        "        self.count = self.count + 1",
        {"pk.stats": "class Mixin:\n    count = 0\n"},
        {"pk.stats": "class Mixin:\n    pass\n"},
        "`self.count` is not there any more",
        "from pk.stats import Mixin",
        "Mixin",
    ),
    Case(
        "an attribute that the patch sets itself",
        "        self.count = 0\n        self.count = self.count + 1",
        {"pk.stats": "class Mixin:\n    count = 0\n"},
        {"pk.stats": "class Mixin:\n    pass\n"},
        None,
        "from pk.stats import Mixin",
        "Mixin",
    ),
    Case(
        "a keyword of a field that upstream took away",
        "        send(Out(rids=[], delay=1))",
        {"pk.io": _out("delay: float = 0.0")},
        {"pk.io": _out("")},
        "`Out` does not take this call any more: it has no parameter `delay`",
        "from pk.io import Out",
    ),
    Case(
        "a field without a default that upstream adds",
        "        send(Out(rids=[]))",
        {"pk.io": _out("")},
        {"pk.io": _out("").replace("rids: list", "rids: list\n    size: int")},
        "`Out` does not take this call any more: it needs `size`",
        "from pk.io import Out",
    ),
    Case(
        "a field that went to a base class in another file",
        "        send(Out(rids=[], delay=1))",
        {"pk.io": _out("delay: float = 0.0")},
        {
            "pk.io": "from pk.b import Base\n" + _out("").replace("class Out:", "class Out(Base):"),
            "pk.b": "import dataclasses\n@dataclasses.dataclass\nclass Base:\n    delay: float\n",
        },
        None,
        "from pk.io import Out",
    ),
    Case(
        "a field, where the base class cannot be seen",
        "        send(Out(rids=[], delay=1))",
        {"pk.io": _out("delay: float = 0.0")},
        {"pk.io": "from far import B\n" + _out("").replace("class Out:", "class Out(B):")},
        None,
        "from pk.io import Out",
    ),
    Case(
        "an argument too many, by a module's name",
        "        io.write(1, 2)",
        {"pk.io": "def write(a, b): pass\n"},
        {"pk.io": "def write(a, *, b=0): pass\n"},
        "`io.write` does not take this call any more: it takes 1 positional arguments at most",
        "from pk import io",
    ),
    Case(
        "a parameter that upstream needs now, behind a re-export",
        "        write(1)",
        {"pk.io": "from pk.b import *\n", "pk.b": "def write(a): pass\n"},
        {"pk.io": "from pk.b import *\n", "pk.b": "def write(a, b): pass\n"},
        "it needs `b`",
        "from pk.io import write",
    ),
    Case(
        "a value that goes to another parameter",
        "        write(1, 2)",
        {"pk.io": "def write(a, b=0): pass\n"},
        {"pk.io": "def write(a, c=0, b=0): pass\n"},
        "its value for `b` would be that for `c`",
        "from pk.io import write",
    ),
    Case(
        "a value of a parameter that upstream renamed",
        "        write(1, 2)",
        {"pk.io": "def write(a, b=0): pass\n"},
        {"pk.io": "def write(a, c=0): pass\n"},
        None,
        "from pk.io import write",
    ),
    Case(
        "a keyword that a function takes with two stars now",
        "        write(a=1)",
        {"pk.io": "def write(a): pass\n"},
        {"pk.io": "def write(**more): pass\n"},
        None,
        "from pk.io import write",
    ),
    Case(
        "a function behind a decorator may take anything",
        "        write(a=1)",
        {"pk.io": "def write(a): pass\n"},
        {"pk.io": "@wrapped\ndef write(b): pass\n"},
        None,
        "from pk.io import write",
    ),
    Case(
        "a call that did not fit before",
        "        write(c=1)",
        {"pk.io": "def write(a): pass\n"},
        {"pk.io": "def write(b): pass\n"},
        None,
        "from pk.io import write",
    ),
    Case(
        "a name that the function has for itself",
        "        write = print\n        write(a=1)",
        {"pk.io": "def write(a): pass\n"},
        {"pk.io": "def write(b): pass\n"},
        None,
        "from pk.io import write",
    ),
    Case(
        "the number of values that a function returns",
        "        one, two = pair(batch)",
        {"pk.io": "def pair(x):\n    return x, 1\n"},
        {"pk.io": "def pair(x):\n    return x, 1, 2\n"},
        "`pair` returns 3 values now, not 2",
        "from pk.io import pair",
    ),
    Case(
        "a module that is gone",
        "        from pk.io import write\n        write(1)",
        {"pk.io": "def write(a): pass\n"},
        {},
        "there is no module pk.io any more",
    ),
    Case(
        "a submodule that is gone",
        "        from pk import io\n        io.write(1)",
        {"pk": "", "pk.io": "def write(a): pass\n"},
        {"pk": ""},
        "pk has no io any more",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_uses(case: Case) -> None:
    base = _task("", case.imports, case.bases)
    ours = _task(case.added, case.imports, case.bases)
    theirs = case.theirs or '"""First."""\n' + base
    others = OtherFiles(
        old=lambda name: case.old[name].encode() if name in case.old else None,
        new=lambda name: case.new[name].encode() if name in case.new else None,
        package="pk",
    )
    merged = merge(base.encode(), ours.encode(), theirs.encode(), python=True, others=others)
    reasons = [c.reason or "" for c in merged.chunks if c.how is How.CONFLICT]
    if case.asked is None:
        assert not reasons
        assert merged.data.decode() == '"""First."""\n' + ours
    else:
        assert case.asked in " ".join(reasons)


_RETURNS: Final = """\
    def f(x):
        if x > 2:
            return {}
        y = x
        y += 1
    {}    z = y
        return {}
    """


def _returns(mine: str, others: str) -> bytes:
    text = dedent(_RETURNS)
    return text.format(others, "\0", others).replace("\0", mine).encode()


def test_a_return_among_others() -> None:
    added = "    if y > 5:\n        return 1, 2\n"
    base, ours, theirs = _returns("", "x, 0"), _returns(added, "x, 0"), _returns("", "x, 0, 1")
    merged = merge(base, ours, theirs, python=True)
    (reason,) = [c.reason for c in merged.conflicts]
    assert reason == "the other returns of the function have 3 values now, not 2"
    assert not merge(base, ours, _returns("", "x, 5"), python=True).conflicts


def test_a_return_of_true_among_others_that_are_something_else_now() -> None:
    added = "    if y > 5:\n        return False\n"
    base, ours, theirs = _returns("", "True"), _returns(added, "True"), _returns("", "Kind.A")
    (conflict,) = merge(base, ours, theirs, python=True).conflicts
    told = "the other returns of the function are not true or false any more"
    assert conflict.reason == told
    assert not merge(base, ours, _returns("", "x > 1"), python=True).conflicts


_CLASSES: Final = "".join(
    f"\n\n@dataclass\nclass C{n}(Base):\n    a: int = {n}\n" for n in range(4)
)
_ADDED: Final = "\n\n@dataclass\nclass New(Base):\n    a: int = 9\n"


def _with_class(text: str) -> bytes:
    return text.replace("\n\n@dataclass\nclass C3", _ADDED + "\n\n@dataclass\nclass C3").encode()


@pytest.mark.parametrize(
    ("theirs", "asked"),
    [
        (_CLASSES.replace("@dataclass\n", ""), "took the decorator `@dataclass` from `C0`, `C1`"),
        (_CLASSES.replace("(Base)", "(Other)"), "took the base class `Base` from `C0`, `C1`"),
        (_CLASSES.replace("@dataclass\nclass C0", "class C0"), None),
    ],
)
def test_a_class_among_others(theirs: str, asked: str | None) -> None:
    base, ours = _CLASSES.encode(), _with_class(_CLASSES)
    merged = merge(base, ours, theirs.encode(), python=True)
    reasons = [c.reason or "" for c in merged.conflicts]
    assert bool(reasons) is (asked is not None)
    assert (asked or "") in " ".join(reasons)


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        ("class R(Struct, kw_only=True):", True),
        ("@dataclass(kw_only=True)\nclass R:", True),
        ("class R(Struct, frozen=True):", False),
    ],
)
def test_values_by_position_for_fields_that_take_names_only(head: str, asked: bool) -> None:
    text = "{}\n    a: int\n    b: int\n\n\nclass S(Struct):\n    a: int\n    b: int\n\n\n{}X = 1\n"
    base, theirs = text.format("class R(Struct):", ""), text.format(head, "")
    ours = text.format("class R(Struct):", "def f(x):\n    return R(x, 1)\n\n\n")
    conflicts = merge(base.encode(), ours.encode(), theirs.encode(), python=True).conflicts
    told = "`R` does not take this call any more: it takes 0 positional arguments at most, not 2"
    assert [c.reason for c in conflicts] == [told] * asked
    named = ours.replace("x, 1", "a=x, b=1").encode()
    assert not merge(base.encode(), named, theirs.encode(), python=True).conflicts


def test_a_local_name_that_is_made_of_itself() -> None:
    base = b"def f(x):\n    n = 0\n    a(x)\n    b(x)\n    c(x)\n    return x\n"
    ours = base.replace(b"    c(x)\n", b"    c(x)\n    n = n + 1\n    put(n)\n")
    theirs = base.replace(b"    n = 0\n", b"")
    (conflict,) = merge(base, ours, theirs, python=True).conflicts
    assert conflict.reason == "`n` is made of itself alone: upstream does not set it any more"
    fresh = ours.replace(b"n = n + 1", b"n = 1")
    assert not merge(base, fresh, theirs, python=True).conflicts


def test_a_class_on_a_base_class_that_is_no_dataclass_any_more() -> None:
    base, added = b"from pk.io import Base\n\nX = 1\n", b"\n\nclass New(Base):\n    a: int = 1\n"
    old = b"@dataclass\nclass Base:\n    pass\n"
    for new, asked in ((old.replace(b"@dataclass\n", b""), True), (old + b"Y = 1\n", False)):
        sources = {"old": old, "new": new}
        others = OtherFiles(
            old=lambda name: sources["old"] if name == "pk.io" else None,  # noqa: B023 - at once
            new=lambda name: sources["new"] if name == "pk.io" else None,  # noqa: B023
        )
        theirs = b"Y = 2\n" + base
        merged = merge(base, base + added, theirs, python=True, others=others)
        reasons = [c.reason for c in merged.conflicts]
        lost = "the base class `Base` has lost its decorator `@dataclass`"
        assert reasons == ([lost] if asked else [])


_HOSTED: Final = """\
    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        from pk.host import Host

    class Mixin:
        def run(self: Host, x):
            one(x)
            two(x)
            three(x)
    """


@pytest.mark.parametrize("annotation", ["Host", '"Host"'])
@pytest.mark.parametrize(
    ("new", "asked"),
    [
        ("self.parts = P()", True),
        ("self.parts = P()\n        self.rank = 0", False),
        ("self.parts = P()\n\n    def rank(self): ...", False),
    ],
)
def test_an_attribute_of_the_class_that_a_mixin_is_for(
    annotation: str,
    new: str,
    asked: bool,
) -> None:
    base = dedent(_HOSTED).replace("self: Host", f"self: {annotation}")
    ours = base.replace("    two(x)\n", "    two(x)\n        log(self.rank)\n")
    host = "class Host:\n    def __init__(self):\n        {}\n".format
    sources = {"old": host("self.rank = 1").encode(), "new": host(new).encode()}
    others = OtherFiles(
        old=lambda name: sources["old"] if name == "pk.host" else None,
        new=lambda name: sources["new"] if name == "pk.host" else None,
    )
    theirs = base.replace("import TYPE_CHECKING", "import TYPE_CHECKING, Any")
    versions = (text.encode() for text in (base, ours, theirs))
    reasons = [c.reason for c in merge(*versions, python=True, others=others).conflicts]
    assert reasons == (["`self.rank` is not there any more"] if asked else [])


@pytest.mark.parametrize(
    ("now", "asked"),
    [
        ("self.host.meter.on", "upstream has `self.host.meter.on` for `self.host.on`"),
        ("self.host.off", None),
        ("self.host.on or self.host.meter.on", None),
    ],
)
def test_an_attribute_that_upstream_reads_from_a_part(now: str, asked: str | None) -> None:
    base = "class Queue:\n    def a(self):\n        if self.host.on:\n            count()\n\n{}"
    last = "    def b(self):\n        done()\n{}        return 1\n"
    added = "        if self.host.on:\n            count()\n"
    before, ours = (base.format(last.format(more)).encode() for more in ("", added))
    merged = merge(before, ours, before.replace(b"self.host.on", now.encode()), python=True)
    assert [c.reason for c in merged.conflicts] == ([asked] if asked else [])


_STORE: Final = """\
    def keep(item, times=0):
        return item, times

    class Store:
        def __init__(self):
            self.items = []

        def add(self, item):
            item, times = keep(item, 1)
            self.items.append(item)

        def first(self):
            return self.items[0]
    """


@pytest.mark.parametrize(
    ("old", "new", "added", "asked"),
    [
        ("self.items", "self.kept", "self.items[1]", "`self.items` is not there any more"),
        ("def first", "def head", "self.first()", "`self.first` is not there any more"),
        (
            "item, times=0)",
            "item, n, times=0)",
            "keep(1)",
            "`keep` does not take this call any more: it needs `n`",
        ),
        ("times", "count", "keep(1, times=2)", "call any more: it has no parameter"),
        ("return item, times", "return 0", "x, y = keep(1)", None),
        ("item, times\n", "item, times, 0\n", "x, y = keep(1)", "`keep` returns 3 values now"),
        ("times=0", "n=0, times=0", "keep(1, 2)", "its value for `times` would be that for `n`"),
        ("self.items", "self.kept", "self.others[1]", None),
        ("items = []", "items: list[\n            int] = []", "self.items[1]", None),
        ("times=0", "times=0, more=0", "keep(1)", None),
    ],
)
def test_new_lines_of_upstream_use_what_the_patch_changes(
    old: str, new: str, added: str, asked: str | None
) -> None:
    base = dedent(_STORE)
    ours = base.replace(old, new)
    theirs = base + f"\n    def more(self):\n        {added}\n"
    merged = merge(base.encode(), ours.encode(), theirs.encode(), python=True)
    reasons = " ".join(c.reason or "" for c in merged.conflicts)
    if asked is None:
        assert not reasons
        assert merged.data.decode() == ours + theirs.removeprefix(base)
    else:
        assert "upstream's new lines use what the patch changes: " in reasons
        assert asked in reasons


_MADE: Final = """\
    import os
    from pk import a, b

    def make(self, device):
        conf = Conf(
            kind=self.kind,
            path=self.path,
        )
        return conf, a, b

    def known(device=None): ...

    class Made:
        @staticmethod
        def known(device): ...
    """


@pytest.mark.parametrize(
    ("new", "asked"),
    [
        ("self.create()", True),
        ("create()", True),
        ("known()", False),
        ("Made.known()", False),
    ],
)
def test_an_argument_for_what_upstream_calls_instead(new: str, asked: bool) -> None:
    defined = (
        b"def known(device=None): ...\nclass Made:\n    @staticmethod\n    def known(device): ...\n"
    )
    base = dedent(_MADE).encode() + defined
    ours = base.replace(b"path=self.path,\n", b"path=self.path,\n        device=device,\n")
    theirs = base.replace(
        base[base.index(b"Conf(") : base.index(b"    return")], new.encode() + b"\n"
    )
    merged = merge(base, ours, theirs, python=True)
    reasons = [c.reason for c in merged.conflicts]
    told = f"upstream calls `{new[:-2]}` there, which may not take what is added"
    assert reasons == ([told] if asked else [])
    assert (new[:-1] + "device=device)").encode() in merged.data or asked


def test_a_parameter_of_a_constructor_that_upstream_made_fields_of() -> None:
    check = b"        self.check(a)\n"
    base = b"class A:\n    def __init__(self, a, b=1):\n        self.a = a\n" + check
    ours = base.replace(b"b=1", b"b=1, c=2")
    theirs = b"class A:\n    a: int\n    b: int = 1\n\n    def __post_init__(self):\n" + check
    (conflict,) = merge(base, ours, theirs, python=True).conflicts
    assert conflict.reason == "upstream removed the function __init__ that the patch changes"


@pytest.mark.parametrize("is_read", [False, True])
def test_an_attribute_of_one_object_that_another_one_still_has(*, is_read: bool) -> None:
    base = b"def f(e):\n    if e.conf.ray:\n        a(e)\n    b(e)\n    c(e)\n    return e.conf.x\n"
    ours = base.replace(b"    c(e)\n", b"    c(e)\n    d(e.conf.ray)\n")
    theirs = base.replace(b"if e.conf.ray", b"if e.backend")
    others = OtherFiles(is_lost=lambda name: name == b"conf.ray" and not is_read)
    merged = merge(base, ours, theirs, python=True, others=others)
    reasons = [c.reason for c in merged.conflicts]
    assert reasons == ([] if is_read else ["the package reads `conf.ray` nowhere any more"])


def test_a_name_is_imported_once() -> None:
    base = dedent(_MADE).encode()
    ours = base.replace(b"import a, b\n", b"import a, b, env\n")
    theirs = base.replace(b"import os\n", b"import pk.env as env\n")
    (conflict,) = merge(base, ours, theirs, python=True).conflicts
    assert conflict.reason == "the result would import `env` twice"


@pytest.mark.parametrize("is_derived", [True, False])
def test_an_option_that_upstream_makes_of_a_field(*, is_derived: bool) -> None:
    base = b"""from pk.conf import Conf

def add(group):
    group.add_argument("--hidden-size", type=int)
    group.add_argument("--vocab-size", type=int)
    group.add_argument("--seed", type=int)
    return group
"""
    ours = base.replace(b"    return", b'    group.add_argument("--norm-eps")\n    return')
    theirs = base.replace(
        b'    group.add_argument("--hidden-size", type=int)\n', b"    derive(Conf)\n"
    )
    fields = b"class Conf:\n    norm_eps: float = 0.0\n"
    fields += b"    hidden_size: int = 1\n" if is_derived else b""
    others = OtherFiles(new=lambda name: fields if name == "pk.conf" else None)
    merged = merge(base, ours, theirs, python=True, others=others)
    told = "upstream makes `hidden_size` of a field of `Conf`, which has `norm_eps`"
    assert [c.reason for c in merged.conflicts] == ([told] if is_derived else [])


def test_a_call_that_upstream_gives_its_values_by_new_positions() -> None:
    call = b"    send(\n        x,\n        one,\n        two,\n        three,\n    )\n"
    base = b"def send(a, b, c=0, d=0): ...\n\ndef f(x):\n" + call + b"    end(x)\n"
    ours = base.replace(b"    send", b"    ret = send").replace(
        b"    )\n", b"    )\n    see(ret)\n"
    )
    theirs = base.replace(b"a, b, c", b"a, c").replace(b"        one,\n", b"")
    merged = merge(base, ours, theirs, python=True)
    assert not merged.conflicts
    assert merged.data == ours.replace(b"a, b, c", b"a, c").replace(b"        one,\n", b"")


def test_a_table_of_lazy_imports_in_another_encoding() -> None:
    table = (
        b'# coding: latin-1\ndef __getattr__(name):\n    ...\n\n_FROM = {"A": "\xe9", "B": ".b"}\n'
    )
    texts = {"p": table, "p.__init__": table, "p.b": b"B = 1\n"}
    module = Module(parse(b"import p\n").raw[0], "p", texts.get)
    assert [module.offers("p", name) for name in (b"A", b"B", b"C")] == [None, True, False]
