"""For each rule of a port a right case, and look-alikes that only a person can decide.

The texts are dedented. `made` is what a careful person would make of it, or None
for a conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent
from typing import Final


@dataclass(frozen=True)
class Case:
    """Three versions of a file, what becomes of them, and by which rule."""

    name: str
    base: str
    ours: str
    theirs: str
    made: str | None
    rule: str | None = None

    def bytes(self) -> tuple[bytes, bytes, bytes]:
        """Return the three versions."""
        return (
            dedent(self.base).encode(),
            dedent(self.ours).encode(),
            dedent(self.theirs).encode(),
        )


_SOME: Final = "    # only some\n    if x.a:\n        x[:] = two(x)\n"
_IMPORTS: Final = """\
    import os

    from kit.alpha import a
    from kit.delta import d

    X = (a, d, os)
    """

_TIMED: Final = """\
    import os
    import time
    from kit import a, c as d

    def f(x):
        return d(time.time())

    def g(x):
        one(x)
        two(x)
        three(x)
        return os.sep
    """
_ANSWER: Final = """\
    def answer(got, info):
        info["id"] = got.id
        if got.rank is not None:
            info["rank"] = got.rank
        info["end"] = 1
        info["sum"] = 2
    """
_ENCODED: Final = """\
    if got.text:
            info["text"] = encode(got.text)
        info["sum"]"""
_PLAIN: Final = """\
    if got.text:
            info["text"] = got.text
        info["end"]"""

_UNTIMED: Final = _TIMED.replace("return d(time.time())", "return a(x)")

CASES: Final = (
    Case(
        "both set one key in one case, at different places",
        _ANSWER,
        _ANSWER.replace('info["sum"]', _ENCODED.lstrip()),
        _ANSWER.replace('info["end"]', _PLAIN.lstrip()),
        None,
    ),
    Case(
        "both set keys of their own in one case",
        _ANSWER,
        _ANSWER.replace('info["sum"]', _ENCODED.lstrip().replace('"text"', '"long"')),
        _ANSWER.replace('info["end"]', _PLAIN.lstrip().replace('"text"', '"short"')),
        _ANSWER.replace('info["sum"]', _ENCODED.lstrip().replace('"text"', '"long"')).replace(
            'info["end"]', _PLAIN.lstrip().replace('"text"', '"short"')
        ),
    ),
    Case(
        "an import of the standard library that upstream needs no more",
        _TIMED,
        _TIMED.replace("        two", "        ours(time.time())\n        two"),
        _UNTIMED.replace("    import time\n", ""),
        _UNTIMED.replace("        two", "        ours(time.time())\n        two"),
        "import-restored",
    ),
    Case(
        "a name of a module from which upstream imports another one",
        _TIMED,
        _TIMED.replace("        two", "        ours(d)\n        two"),
        _UNTIMED.replace(", c as d", ""),
        _UNTIMED.replace("        two", "        ours(d)\n        two"),
        "import-restored",
    ),
    Case(
        "a module that upstream may depend on no more",
        _TIMED.replace("import time", "import thirdparty as time"),
        _TIMED.replace("import time", "import thirdparty as time").replace(
            "        two", "        ours(time.time())\n        two"
        ),
        _UNTIMED.replace("    import time\n", ""),
        None,
    ),
    Case(
        "a name of the standard library that upstream makes itself",
        _TIMED,
        _TIMED.replace("        two", "        ours(time.time())\n        two"),
        _UNTIMED.replace("    import time\n", "").replace("def f(x)", "def f(x, time=1)"),
        _UNTIMED.replace("def f(x)", "def f(x, time=1)").replace(
            "        two", "        ours(time.time())\n        two"
        ),
        "import-restored",
    ),
    Case(
        "imports are a set, kept sorted",
        _IMPORTS,
        _IMPORTS.replace("    from kit.delta", "    from kit.beta import b\n    from kit.delta"),
        _IMPORTS.replace("    from kit.delta", "    from kit.camma import c\n    from kit.delta"),
        _IMPORTS.replace(
            "    from kit.delta",
            "    from kit.beta import b\n    from kit.camma import c\n    from kit.delta",
        ),
        "insertion-beside-insertion",
    ),
    Case(
        "imported names are a set",
        "from kit import a, d\n",
        "from kit import a, b, d\n",
        "from kit import a, c, d\n",
        "from kit import a, b, c, d\n",
        "insertion-beside-insertion",
    ),
    Case(
        "names in parentheses from a module that upstream moves",
        "from kit.old import a\n\nX = a\n",
        "from kit.old import (\n    a,\n    b,\n)\n\nX = a\n",
        "from kit.new import a\n\nX = a\n",
        None,  # nothing shows that kit.new has b; tests/merge/test_proven.py has the proof
    ),
    Case(
        "an import that upstream added as well",
        "import os\n\nX = 1\n",
        "import os\nimport sys\n\nX = 1\n",
        "import json\nimport os\nimport sys\nimport re\n\nX = 1\n",
        "import json\nimport os\nimport sys\nimport re\n\nX = 1\n",
        "same-change",
    ),
    Case(
        "the same name imported from elsewhere",
        "import os\n\nX = 1\n",
        "import os\nfrom kit import name\n\nX = name\n",
        "import os\nfrom other import name\n\nX = 1\n",
        None,
    ),
    Case(
        "keyword arguments are a set",
        "call(\n    1,\n    a=1,\n)\n",
        "call(\n    1,\n    a=1,\n    b=2,\n)\n",
        "call(\n    1,\n    a=1,\n    c=3,\n)\n",
        "call(\n    1,\n    a=1,\n    b=2,\n    c=3,\n)\n",
        "insertion-beside-insertion",
    ),
    Case(
        "positional arguments are not",
        "call(\n    1,\n)\n",
        "call(\n    1,\n    2,\n)\n",
        "call(\n    1,\n    3,\n)\n",
        None,
    ),
    Case(
        "a keyword argument that both give",
        "call(\n    a=1,\n)\n",
        "call(\n    a=1,\n    b=2,\n)\n",
        "call(\n    a=1,\n    b=3,\n)\n",
        None,
    ),
    Case(
        "a parameter with a default stands behind upstream's",
        "def f(\n    a,\n    b=1,\n):\n    pass\n",
        "def f(\n    a,\n    b=1,\n    ours=2,\n):\n    pass\n",
        "def f(\n    a,\n    b=1,\n    theirs=3,\n):\n    pass\n",
        "def f(\n    a,\n    b=1,\n    theirs=3,\n    ours=2,\n):\n    pass\n",
        "insertion-beside-insertion",
    ),
    Case(
        "parameters without a default are positions",
        "def f(\n    a,\n):\n    pass\n",
        "def f(\n    a,\n    ours,\n):\n    pass\n",
        "def f(\n    a,\n    theirs,\n):\n    pass\n",
        None,
    ),
    Case(
        "entries of a dictionary are a set",
        "D = {\n    'a': 1,\n}\n",
        "D = {\n    'a': 1,\n    'b': 2,\n}\n",
        "D = {\n    'a': 1,\n    'c': 3,\n}\n",
        "D = {\n    'a': 1,\n    'b': 2,\n    'c': 3,\n}\n",
        "insertion-beside-insertion",
    ),
    Case(
        "an entry behind one that may override it",
        "D = {\n    'a': 1,\n}\n",
        "D = {\n    'a': 1,\n    'b': 2,\n}\n",
        "D = {\n    'a': 1,\n    **more,\n}\n",
        None,
    ),
    Case(
        "names in a list",
        '__all__ = [\n    "a",\n]\n',
        '__all__ = [\n    "a",\n    "b",\n]\n',
        '__all__ = [\n    "a",\n    "c",\n]\n',
        '__all__ = [\n    "a",\n    "c",\n    "b",\n]\n',
        "insertion-beside-insertion",
    ),
    Case(
        "steps in a list",
        "STEPS = [\n    first,\n]\n",
        "STEPS = [\n    first,\n    second,\n]\n",
        "STEPS = [\n    first,\n    other,\n]\n",
        None,
    ),
    Case(
        "fields of a class",
        "class A:\n    a: int = 1\n",
        "class A:\n    a: int = 1\n    ours: int = 2\n",
        "class A:\n    a: int = 1\n    theirs: int = 3\n",
        "class A:\n    a: int = 1\n    theirs: int = 3\n    ours: int = 2\n",
        "insertion-beside-insertion",
    ),
    Case(
        "methods of a class",
        "class A:\n    def a(self):\n        pass\n",
        "class A:\n    def a(self):\n        pass\n\n    def ours(self):\n        return 1\n",
        "class A:\n    def a(self):\n        pass\n\n    def theirs(self):\n        return 2\n",
        "class A:\n    def a(self):\n        pass\n\n    def ours(self):\n        return 1\n"
        "\n    def theirs(self):\n        return 2\n",
        "insertion-beside-insertion",
    ),
    Case(
        "two methods of one name",
        "class A:\n    def a(self):\n        pass\n",
        "class A:\n    def a(self):\n        pass\n\n    def new(self):\n        return 1\n",
        "class A:\n    def a(self):\n        pass\n\n    def new(self):\n        return 2\n",
        None,
    ),
    Case(
        "members of an enumeration that count",
        "class A(Enum):\n    a = auto()\n",
        "class A(Enum):\n    a = auto()\n    ours = auto()\n",
        "class A(Enum):\n    a = auto()\n    theirs = auto()\n",
        None,
    ),
    Case(
        "decorators",
        "@first\ndef f():\n    pass\n",
        "@first\n@ours\ndef f():\n    pass\n",
        "@first\n@theirs\ndef f():\n    pass\n",
        None,
    ),
    Case(
        "methods, of which upstream's has a decorator of the module that both annotate with",
        "class A:\n    def a(self):\n        pass\n",
        "class A:\n    def a(self):\n        pass\n\n"
        "    def b(self, x: kit.Tensor) -> kit.Tensor:\n        return x\n",
        "class A:\n    def a(self):\n        pass\n\n"
        "    @kit.compiled(fast=True)\n    def c(self, x: kit.Tensor):\n        return x\n",
        "class A:\n    def a(self):\n        pass\n\n"
        "    def b(self, x: kit.Tensor) -> kit.Tensor:\n        return x\n\n"
        "    @kit.compiled(fast=True)\n    def c(self, x: kit.Tensor):\n        return x\n",
        "insertion-beside-insertion",
    ),
    Case(
        "a default that reads what upstream's decorator may change",
        "class A:\n    def a(self):\n        pass\n",
        "class A:\n    def a(self):\n        pass\n\n"
        "    def b(self, x=kit.last):\n        return x\n",
        "class A:\n    def a(self):\n        pass\n\n"
        "    @kit.compiled(fast=True)\n    def c(self, x):\n        return x\n",
        None,
    ),
    Case(
        "a message that upstream writes with other quotes",
        "def f(x):\n    assert x, 'it is there'\n    return x\n",
        "def f(x):\n    if not x:\n        return None\n    return x\n",
        'def f(x):\n    assert x, "it is there"\n    return x\n',
        "def f(x):\n    if not x:\n        return None\n    return x\n",
        "neighbour-changed",
    ),
    Case(
        "a message that upstream writes without an f",
        'def f(x):\n    assert x, f"it is there"\n    return x\n',
        "def f(x):\n    if not x:\n        return None\n    return x\n",
        'def f(x):\n    assert x, "it is there"\n    return x\n',
        "def f(x):\n    if not x:\n        return None\n    return x\n",
        "neighbour-changed",
    ),
    Case(
        "a message that upstream makes ready for a value, and the patch gives one",
        "def f(x):\n    assert x, 'it is there'\n    return x\n",
        "def f(x):\n    assert x, 'it is {x}'\n    return x\n",
        "def f(x):\n    assert x, f'it is there'\n    return x\n",
        "def f(x):\n    assert x, f'it is {x}'\n    return x\n",
    ),
    Case(
        "a message to which upstream gives a value",
        "def f(x):\n    assert x, f'it is there'\n    return x\n",
        "def f(x):\n    if not x:\n        return None\n    return x\n",
        "def f(x):\n    assert x, f'it is {x}'\n    return x\n",
        None,
    ),
    Case(
        "cases of a match with values of their own",
        "match x:\n    case 'a':\n        f()\n",
        "match x:\n    case 'a':\n        f()\n    case 'b':\n        g()\n",
        "match x:\n    case 'a':\n        f()\n    case 'c':\n        h()\n",
        "match x:\n    case 'a':\n        f()\n    case 'b':\n"
        "        g()\n    case 'c':\n        h()\n",
        "insertion-beside-insertion",
    ),
    Case(
        "cases of a match that may overlap",
        "match x:\n    case 'a':\n        f()\n",
        "match x:\n    case 'a':\n        f()\n    case {'b': y}:\n        g()\n",
        "match x:\n    case 'a':\n        f()\n    case {'c': y}:\n        h()\n",
        None,
    ),
    Case(
        "cases of which one has a guard",
        "match x:\n    case 1:\n        a()\n",
        "match x:\n    case 1:\n        a()\n    case 2 if y:\n        b()\n",
        "match x:\n    case 1:\n        a()\n    case 2:\n        d()\n",
        None,
    ),
    Case(
        "cases of a number that is written in two ways",
        "match x:\n    case 1:\n        a()\n",
        "match x:\n    case 1:\n        a()\n    case 0x2:\n        b()\n",
        "match x:\n    case 1:\n        a()\n    case 2:\n        d()\n",
        None,
    ),
    Case(
        "cases of a string in two kinds of quotes",
        "match x:\n    case 1:\n        a()\n",
        "match x:\n    case 1:\n        a()\n    case 'b':\n        b()\n",
        'match x:\n    case 1:\n        a()\n    case "b":\n        d()\n',
        None,
    ),
    Case(
        "a case of a number beside one of a name",
        "match x:\n    case 1:\n        a()\n",
        "match x:\n    case 1:\n        a()\n    case 2:\n        b()\n",
        "match x:\n    case 1:\n        a()\n    case K.B:\n        d()\n",
        None,
    ),
    Case(
        "arguments of a command line in a list",
        'run([\n    "--a",\n    "c",\n])\n',
        'run([\n    "--a",\n    "ours",\n    "c",\n])\n',
        'run([\n    "--a",\n    "theirs",\n    "c",\n])\n',
        None,
    ),
    Case(
        "a short statement that moves behind one of upstream's that uses it",
        "def f(a):\n    w = 0\n    m(a)\n    end()\n",
        "def f(a):\n    m(a)\n    w = 0\n    end()\n",
        "def f(a):\n    w = 0\n    x = w\n    m(a)\n    end()\n",
        None,
    ),
    Case(
        "a variable that the patch renames and a new line of upstream's uses",
        "def f(a):\n    x = g(a)\n    h(a)\n    k(a)\n    return x\n",
        "def f(a):\n    y = g(a)\n    h(a)\n    k(a)\n    return y\n",
        "def f(a):\n    x = g(a)\n    h(a)\n    theirs(x)\n    k(a)\n    return x\n",
        None,
    ),
    Case(
        "a comment on what upstream adds as well",
        "def f():\n    g(1)\n    h(2)\n",
        "def f():\n    g(1)\n    # why\n    k(3)\n    h(2)\n",
        "def f():\n    g(1)\n    k(3)\n    h(2)\n",
        "def f():\n    g(1)\n    k(3)\n    h(2)\n",
        "comment-left-out",
    ),
    Case(
        "a case that may overlap upstream's value",
        "match x:\n    case 'a':\n        f()\n",
        "match x:\n    case 'a':\n        f()\n    case 'b':\n        g()\n",
        "match x:\n    case 'a':\n        f()\n    case y:\n        h()\n",
        None,
    ),
    Case(
        "the same statement, but elsewhere",
        "def f(x):\n    a(x)\n    b(x)\n    c(x)\n    d(x)\n    return x\n",
        "def f(x):\n    a(x)\n    check(x)\n    b(x)\n    c(x)\n    d(x)\n    return x\n",
        "def f(x):\n    a(x, 1)\n    b(x)\n    c(x)\n    check(x)\n    d(x)\n    return x\n",
        None,
    ),
    Case(
        "assignments that know nothing of each other",
        "def f(self):\n    self.a = 1\n    return self\n",
        "def f(self):\n    self.a = 1\n    self.ours = 2\n    return self\n",
        "def f(self):\n    self.a = 1\n    self.theirs = 3\n    return self\n",
        "def f(self):\n    self.a = 1\n    self.ours = 2\n    self.theirs = 3\n    return self\n",
        "insertion-beside-insertion",
    ),
    Case(
        "an assignment that reads the other",
        "def f(self):\n    self.a = 1\n    return self\n",
        "def f(self):\n    self.a = 1\n    self.ours = self.theirs\n    return self\n",
        "def f(self):\n    self.a = 1\n    self.theirs = 3\n    return self\n",
        None,
    ),
    Case(
        "two calls",
        "def f(x):\n    start(x)\n    stop(x)\n",
        "def f(x):\n    start(x)\n    ours(x)\n    stop(x)\n",
        "def f(x):\n    start(x)\n    theirs(x)\n    stop(x)\n",
        None,
    ),
    Case(
        "two calls at the end of a loop",
        "def f(x):\n    for y in x:\n        a(y)\n    return x\n",
        "def f(x):\n    for y in x:\n        a(y)\n        ours(y)\n    return x\n",
        "def f(x):\n    for y in x:\n        a(y)\n        theirs(y)\n    return x\n",
        None,
    ),
    Case(
        "an assignment beside a call that can see it",
        "def f(self):\n    self.a = 1\n    return self\n",
        "def f(self):\n    self.a = 1\n    self.ours = 2\n    return self\n",
        "def f(self):\n    self.a = 1\n    self.setup()\n    return self\n",
        None,
    ),
    Case(
        "an assignment beside a way out",
        "def f(x):\n    a = 1\n    return a\n",
        "def f(x):\n    a = 1\n    x.ours = 2\n    return a\n",
        "def f(x):\n    a = 1\n    if a:\n        return 0\n    return a\n",
        None,
    ),
    Case(
        "options of a command line",
        'p.add_argument("--a")\n',
        'p.add_argument("--a")\np.add_argument("--ours")\n',
        'p.add_argument("--a")\np.add_argument("--theirs")\n',
        'p.add_argument("--a")\np.add_argument("--ours")\np.add_argument("--theirs")\n',
        "insertion-beside-insertion",
    ),
    Case(
        "what is appended to a list",
        'p.append("a")\n',
        'p.append("a")\np.append("ours")\n',
        'p.append("a")\np.append("theirs")\n',
        None,
    ),
    *(
        Case(
            f"a neighbour that upstream puts into a block {where}",
            "def f(x):\n    one(x)\n    x[:] = two(x)\n    three(x)\n",
            "def f(x):\n    one(x)\n    y = log(x)\n    x[:] = two(x)\n    three(x, y)\n",
            f"def f(x):\n    one(x)\n{above}{_SOME}    three(x)\n",
            made,
            rule,
        )
        for where, above, rule, made in (
            (
                "below a comment",
                "",
                "comment-above",
                f"def f(x):\n    one(x)\n    y = log(x)\n{_SOME}    three(x, y)\n",
            ),
            ("below a call", "    put(x)\n", None, None),
        )
    ),
    Case(
        "a neighbour that upstream annotates",
        "class A:\n    a: int = 1\n    b: int = 2\n",
        "class A:\n    a: int = 1\n    ours: int = 3\n    b: int = 2\n",
        'class A:\n    a: A[int, "why"] = 1\n    b: A[int, "what"] = 2\n',
        'class A:\n    a: A[int, "why"] = 1\n    ours: int = 3\n    b: A[int, "what"] = 2\n',
        "neighbour-changed",
    ),
    Case(
        "a neighbour that upstream takes away",
        "class A:\n    a: int = 1\n    b: int = 2\n    c: int = 3\n",
        "class A:\n    a: int = 1\n    b: int = 2\n    ours: int = 4\n    c: int = 3\n",
        "class A:\n    a: int = 1\n    c: int = 3\n",
        "class A:\n    a: int = 1\n    ours: int = 4\n    c: int = 3\n",
        "neighbour-removed",
    ),
    Case(
        "both neighbours taken away",
        "def f(x):\n    x.a()\n    x.b()\n    x.c()\n    x.d()\n",
        "def f(x):\n    x.a()\n    x.b()\n    ours()\n    x.c()\n    x.d()\n",
        "def f(x):\n    x.a()\n    x.d()\n",
        None,
    ),
    Case(
        "members that upstream grouped anew",
        "class A:\n    a: int = 1\n    b: int = 2\n    c: int = 3\n    d: int = 4\n",
        "class A:\n    a: int = 1\n    b: int = 2\n    ours: int = 5\n"
        "    c: int = 3\n    d: int = 4\n",
        "class A:\n    c: int = 3\n    a: int = 1\n    d: int = 4\n"
        "    b: int = 2\n    e: int = 0\n",
        "class A:\n    c: int = 3\n    a: int = 1\n    d: int = 4\n    b: int = 2\n"
        "    ours: int = 5\n    e: int = 0\n",
        "neighbours-moved",
    ),
    Case(
        "statements that upstream put in another order",
        "def f():\n    a()\n    b()\n    c()\n    d()\n",
        "def f():\n    a()\n    b()\n    ours()\n    c()\n    d()\n",
        "def f():\n    c()\n    d()\n    a()\n    e()\n    b()\n",
        None,
    ),
    Case(
        "neighbours that upstream put into a block",
        "def f():\n    a()\n    b()\n    return 1\n",
        "def f():\n    a()\n    ours()\n    b()\n    return 1\n",
        "def f():\n    with lock:\n        a()\n        b()\n    return 1\n",
        "def f():\n    with lock:\n        a()\n        ours()\n        b()\n    return 1\n",
        "neighbours-moved",
    ),
    Case(
        "a statement that the patch wraps and upstream changes",
        "def f(x):\n    g(x)\n    return x\n",
        "def f(x):\n    if x.on:\n        g(x)\n    return x\n",
        "def f(x):\n    g(x, more=1)\n    return x\n",
        "def f(x):\n    if x.on:\n        g(x, more=1)\n    return x\n",
        "wrapped-statement",
    ),
    Case(
        "statements that the patch wraps and changes, and to which upstream adds",
        "def f(x):\n    y = get(x)\n    report(\n        a=x.a,\n        b=y,\n    )\n    g(x)\n",
        "def f(x):\n    if x.on:\n        y = get(x)\n        report(\n            a=x.get('a'),\n"
        "            b=y,\n        )\n    g(x)\n",
        "def f(x):\n    y = get(x)\n    report(\n        c=x,\n        a=x.a,\n"
        "        b=y,\n    )\n    g(x)\n",
        "def f(x):\n    if x.on:\n        y = get(x)\n        report(\n            c=x,\n"
        "            a=x.get('a'),\n            b=y,\n        )\n    g(x)\n",
        "wrapped-statement",
    ),
    Case(
        "statements that the patch wraps, and changes where upstream does",
        "def f(x):\n    y = get(x)\n    report(a=x.a, b=y)\n    g(x)\n",
        "def f(x):\n    if x.on:\n        y = get(x)\n        report(a=x.get('a'), b=y)\n"
        "    g(x)\n",
        "def f(x):\n    y = get(x)\n    report(a=x.c, b=y)\n    g(x)\n",
        None,
    ),
    Case(
        "a call whose value the patch uses, and whose arguments upstream changes",
        "def f(x):\n    call(x, 1)\n    return x\n",
        "def f(x):\n    z = call(x, 1)\n    if z:\n        stop(z)\n    return x\n",
        "def f(x):\n    call(x)\n    return x\n",
        "def f(x):\n    z = call(x)\n    if z:\n        stop(z)\n    return x\n",
        "wrapped-expression",
    ),
    Case(
        "a call that the patch makes twice",
        "def f(x):\n    call(x, 1)\n    return x\n",
        "def f(x):\n    z = call(x, 1)\n    if z:\n        z = call(x, 1)\n    return x\n",
        "def f(x):\n    call(x)\n    return x\n",
        None,
    ),
    Case(
        "a call whose value both use",
        "def f(x):\n    call(x, 1)\n    return x\n",
        "def f(x):\n    z = call(x, 1)\n    return x or z\n",
        "def f(x):\n    w = call(x, 1)\n    return x\n",
        None,
    ),
    Case(
        "a statement that both wrap",
        "def f(x):\n    g(x)\n    return x\n",
        "def f(x):\n    if x.on:\n        g(x)\n    return x\n",
        "def f(x):\n    while x.busy:\n        g(x)\n    return x\n",
        None,
    ),
    Case(
        "a statement that the patch wraps twice",
        "def f(x):\n    g(x)\n    return x\n",
        "def f(x):\n    if x.on:\n        g(x)\n    else:\n        g(x)\n    return x\n",
        "def f(x):\n    g(x, more=1)\n    return x\n",
        None,
    ),
    Case(
        "a comment that upstream puts above a line",
        "def f(x):\n    y = g(x)\n    return y\n",
        "def f(x):\n    y = h(x)\n    return y\n",
        "def f(x):\n    # Why it is so.\n    y = g(x)\n    return y\n",
        "def f(x):\n    # Why it is so.\n    y = h(x)\n    return y\n",
    ),
    Case(
        "different arguments of one call",
        "def f():\n    return g(first=1, second=2, third=3)\n",
        "def f():\n    return g(first=10, second=2, third=3)\n",
        "def f():\n    return g(first=1, second=2, third=30)\n",
        "def f():\n    return g(first=10, second=2, third=30)\n",
        "tokens-disjoint",
    ),
    Case(
        "the same argument of one call",
        "def f():\n    return g(first=1, second=2, third=3)\n",
        "def f():\n    return g(first=10, second=2, third=3)\n",
        "def f():\n    return g(first=11, second=2, third=3)\n",
        None,
    ),
    Case(
        "two sides of one sum",
        "x = a + b\n",
        "x = a + c\n",
        "x = d + b\n",
        None,
    ),
    Case(
        "a call that upstream wraps, and the patch changes inside",
        "x = make(one(1), two(2)) if on else None\n",
        "x = make(one(1), three(2, 3)) if on else None\n",
        "x = build(one(1), two(2))\n",
        "x = build(one(1), three(2, 3))\n",
        "tokens-disjoint",
    ),
    Case(
        "a line that upstream breaks",
        "def f(aaa, bbb):\n    return g(aaa, bbb)\n",
        "def f(aaa, bbb):\n    return g(aaa, bbb, key=1)\n",
        "def f(aaa, bbb):\n    return g(\n        aaa,\n        bbb,\n    )\n",
        "def f(aaa, bbb):\n    return g(\n        aaa,\n        bbb,\n        key=1,\n    )\n",
    ),
    Case(
        "a definition that upstream moved within the file",
        "def f():\n    a = 1\n    b = 2\n    return a + b\n"
        "\n\ndef g():\n    pass\n\n\ndef h():\n    pass\n",
        "def f():\n    a = 1\n    b = 3\n    return a + b\n"
        "\n\ndef g():\n    pass\n\n\ndef h():\n    pass\n",
        "def g():\n    pass\n\n\ndef h():\n    pass\n\n\ndef f():\n"
        "    a = 1\n    b = 2\n    return a + b\n",
        "def g():\n    pass\n\n\ndef h():\n    pass\n\n\ndef f():\n"
        "    a = 1\n    b = 3\n    return a + b\n",
    ),
    Case(
        "a definition that upstream renamed and moved",
        "def old(x):\n    a = x + 1\n    b = a * 2\n    return b\n"
        "\n\ndef g():\n    pass\n\n\ndef h():\n    pass\n",
        "def old(x):\n    a = x + 1\n    b = a * 3\n    return b\n"
        "\n\ndef g():\n    pass\n\n\ndef h():\n    pass\n",
        "def g():\n    pass\n\n\ndef h():\n    pass\n\n\ndef new(x):\n"
        "    a = x + 2\n    b = a * 2\n    return b\n",
        "def g():\n    pass\n\n\ndef h():\n    pass\n\n\ndef new(x):\n"
        "    a = x + 2\n    b = a * 3\n    return b\n",
        "renamed-definition",
    ),
    Case(
        "a definition that upstream split in two",
        "def old(x):\n    a = x + 1\n    b = a * 2\n    c = b - 3\n    return c\n",
        "def old(x):\n    a = x + 1\n    b = a * 5\n    c = b - 3\n    return c\n",
        "def one(x):\n    return x + 1\n\n\ndef two(a):\n    return a * 2 - 3\n",
        None,
    ),
    Case(
        "twins: the function that the patch is for is gone",
        "def one():\n    a = 1\n    b = 2\n    c = 3\n    return a\n\n\ndef end():\n    pass\n",
        "def one():\n    a = 1\n    b = 2\n    ours = 0\n    c = 3\n"
        "    return a\n\n\ndef end():\n    pass\n",
        "def two():\n    z = 9\n    return z\n\n\ndef end():\n"
        "    a = 1\n    b = 2\n    c = 3\n    pass\n",
        None,
    ),
    Case(
        "upstream changes what the patch takes away",
        "def f():\n    a()\n    b(1)\n    c()\n",
        "def f():\n    a()\n    c()\n",
        "def f():\n    a()\n    b(2)\n    c()\n",
        None,
    ),
    Case(
        "an argument that the patch takes away and upstream replaces",
        "def f(x):\n    y = copy(x.all())\n    return y\n",
        "def f(x):\n    y = Base()\n    return y\n",
        "def f(x):\n    y = copy(x.some)\n    return y\n",
        None,
    ),
    Case(
        "both take the same away, beside other changes",
        "def f():\n    a()\n    b()\n    c()\n",
        "def f():\n    a()\n    c()\n",
        "def f():\n    a(1)\n    c(2)\n",
        "def f():\n    a(1)\n    c(2)\n",
        "removed-upstream",
    ),
    Case(
        "upstream makes a part of the same change",
        "def f(x):\n    x.start()\n    return x\n",
        "def f(x):\n    try:\n        x.start()\n    except OSError:\n"
        "        x.clean()\n        x.stop()\n    return x\n",
        "def f(x):\n    try:\n        x.start()\n    except OSError:\n"
        "        x.stop()\n    return x\n",
        "def f(x):\n    try:\n        x.start()\n    except OSError:\n"
        "        x.clean()\n        x.stop()\n    return x\n",
        "part-of-the-change",
    ),
    Case(
        "upstream makes something else of what the patch replaces",
        "def f(x):\n    x.start()\n    return x\n",
        "def f(x):\n    try:\n        x.begin()\n        y.start()\n    except OSError:\n"
        "        pass\n    return x\n",
        "def f(x):\n    y.start()\n    return x\n",
        None,
    ),
    Case(
        "a function cut in two below a line that upstream changes",
        "def f(x):\n    a(x)\n    b(x)\n    return x\n",
        "def f(x):\n    a(x)\n    return g(x)\n\n\ndef g(x):\n    b(x)\n    return x\n",
        "def f(x):\n    a(x, 1)\n    b(x)\n    return x\n",
        "def f(x):\n    a(x, 1)\n    return g(x)\n\n\ndef g(x):\n    b(x)\n    return x\n",
        "neighbour-changed",
    ),
    Case(
        "a name that upstream does not import any more",
        "import os\nimport re\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n    return re.x\n",
        "import os\nimport re\n\n\ndef f(x):\n    return os.fspath(x)\n"
        "\n\ndef g(x):\n    return re.x\n",
        "import re\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n    return re.x\n",
        "import os\nimport re\n\n\ndef f(x):\n    return os.fspath(x)\n"
        "\n\ndef g(x):\n    return re.x\n",
        "import-restored",
    ),
    Case(
        "an attribute that upstream renames",
        "class A:\n    def __init__(self):\n        self.old = 1\n"
        "\n    def f(self):\n        return 1\n",
        "class A:\n    def __init__(self):\n        self.old = 1\n"
        "\n    def f(self):\n        return self.old\n",
        "class A:\n    def __init__(self):\n        self.new = 1\n"
        "\n    def f(self):\n        return 1\n",
        None,
    ),
    Case(
        "a twin of what the patch makes, and what it replaces is still there",
        "def f(x):\n    if x.c:\n        old(x)\n    return x\n",
        "def f(x):\n    if x.c:\n        new(x)\n    return x\n",
        "def f(x):\n    if x.d:\n        new(x)\n    elif x.c:\n        old(x)\n    return x\n",
        None,
    ),
    Case(
        "upstream has it, with a word to it, and it holds what it replaces",
        "def f(x):\n    a = get(0)\n    return a\n\n\ndef g(x):\n    a = get(0)\n    return a\n",
        "def f(x):\n    a = get(0).wide()\n    return a\n\n\n"
        "def g(x):\n    a = get(0)\n    return a\n",
        "def f(x):\n    a = get(0).wide()  # far\n    return a\n\n\n"
        "def g(x):\n    a = get(0).wide()  # far\n    return a\n",
        "def f(x):\n    a = get(0).wide()  # far\n    return a\n\n\n"
        "def g(x):\n    a = get(0).wide()  # far\n    return a\n",
        "same-change",
    ),
    Case(
        "a statement that the patch keeps inside, below one that resembles it",
        "def f(x):\n    x.meta = x.states[0]\n    return x\n",
        "def f(x):\n    states = x.states[0]\n    if states:\n        x.meta = x.states[0]\n"
        "    return x\n",
        "def f(x):\n    x.meta = x.states[1]\n    return x\n",
        "def f(x):\n    states = x.states[0]\n    if states:\n        x.meta = x.states[1]\n"
        "    return x\n",
        "wrapped-statement",
    ),
    Case(
        "lines that are merged cleanly, but are no Python together",
        "if a:\n    b()\n    c()\n    d()\n",
        "if a:\n    b()\n    c()\n    d()\nelse:\n    e()\n",
        "with a:\n    b()\n    c()\n    d()\n",
        None,
    ),
    Case(
        "a string keeps its lines",
        "def f():\n    a()\n    b()\n    return 1\n",
        'def f():\n    a()\n    g("""x\n  y\n""")\n    b()\n    return 1\n',
        "def f():\n    with z:\n        a()\n        b()\n    return 1\n",
        'def f():\n    with z:\n        a()\n        g("""x\n  y\n""")\n'
        "        b()\n    return 1\n",
        "neighbours-moved",
    ),
)


_POOL: Final = "class Pool:" + "\n".join(
    f"\n    def m{n}(self):\n        return {n}" for n in range(5)
)
_METHOD: Final = "    def new(self):\n        return {}\n\n"
_TABLE: Final = "D = {\n" + "".join(f"    'k{n}': {n},\n" for n in range(8)) + "}\n"
_OPTIONS: Final = "".join(f'p.add_argument("--o{n}")\n' for n in range(8))
_CALL: Final = "x = call(\n" + "".join(f"    k{n}={n},\n" for n in range(8)) + ")\n"
_STEPS: Final = "def f(x, p=None):\n    a = g(x)\n    b = [0]\n    c = [1]\n    return a, b, c\n"
_IF: Final = "    if p is not None:\n        x = x + p\n"


def _at(text: str, before: str, added: str) -> str:
    return text.replace(before, added + before)


TWINS: Final = (
    Case(
        "a method that upstream adds elsewhere in the class",
        _POOL,
        _at(_POOL, "    def m4", _METHOD.format(5)),
        _at(_POOL, "    def m1", _METHOD.format(5)),
        _at(_POOL, "    def m1", _METHOD.format(5)),
        "same-change",
    ),
    Case(
        "another method of that name elsewhere in the class",
        _POOL,
        _at(_POOL, "    def m4", _METHOD.format(5)),
        _at(_POOL, "    def m1", _METHOD.format(6)),
        None,
    ),
    Case(
        "an attribute of the name of a method that upstream adds",
        _POOL,
        _at(_POOL, "    def m4", _METHOD.format(5)),
        _at(_POOL, "    def m1", "    new = 5\n\n"),
        None,
    ),
    Case(
        "a function that upstream adds elsewhere in the module",
        _OPTIONS,
        _at(_OPTIONS, 'p.add_argument("--o7")', "def new():\n    return 1\n\n\n"),
        _at(_OPTIONS, 'p.add_argument("--o2")', "def new():\n    return 1\n\n\n"),
        _at(_OPTIONS, 'p.add_argument("--o2")', "def new():\n    return 1\n\n\n"),
        "same-change",
    ),
    Case(
        "a key that upstream adds elsewhere in the dictionary",
        _TABLE,
        _at(_TABLE, "    'k7'", "    'new': 1,\n"),
        _at(_TABLE, "    'k2'", "    'new': 1,\n"),
        _at(_TABLE, "    'k2'", "    'new': 1,\n"),
        "same-change",
    ),
    Case(
        "a key with another value elsewhere in the dictionary",
        _TABLE,
        _at(_TABLE, "    'k7'", "    'new': 1,\n"),
        _at(_TABLE, "    'k2'", "    'new': 2,\n"),
        None,
    ),
    Case(
        "a key beside another dictionary that may hold it",
        _TABLE,
        _at(_TABLE, "    'k7'", "    'new': 1,\n"),
        _at(_TABLE, "    'k2'", "    **more,\n"),
        None,
    ),
    Case(
        "an option that upstream registers elsewhere",
        _OPTIONS,
        _at(_OPTIONS, 'p.add_argument("--o7")', 'p.add_argument("--new")\n'),
        _at(_OPTIONS, 'p.add_argument("--o2")', 'p.add_argument("--new")\n'),
        _at(_OPTIONS, 'p.add_argument("--o2")', 'p.add_argument("--new")\n'),
        "same-change",
    ),
    Case(
        "an option that upstream registers elsewhere with another default",
        _OPTIONS,
        _at(_OPTIONS, 'p.add_argument("--o7")', 'p.add_argument("--new")\n'),
        _at(_OPTIONS, 'p.add_argument("--o2")', 'p.add_argument("--new", default=1)\n'),
        None,
    ),
    Case(
        "a keyword argument that upstream gives elsewhere in the call",
        _CALL,
        _at(_CALL, "    k7", "    new=1,\n"),
        _at(_CALL, "    k2", "    new=1,\n"),
        _at(_CALL, "    k2", "    new=1,\n"),
        "same-change",
    ),
    Case(
        "a keyword argument beside keywords that upstream adds with two stars",
        _CALL,
        _at(_CALL, "    k7", "    new=1,\n"),
        _at(_CALL, "    k2", "    **more,\n"),
        None,
    ),
    Case(
        "a parameter that upstream adds elsewhere",
        _CALL.replace("x = call(", "def f(").replace(")", "):\n    pass"),
        _at(_CALL, "    k7", "    new=1,\n")
        .replace("x = call(", "def f(")
        .replace(")", "):\n    pass"),
        _at(_CALL, "    k2", "    new=1,\n")
        .replace("x = call(", "def f(")
        .replace(")", "):\n    pass"),
        _at(_CALL, "    k2", "    new=1,\n")
        .replace("x = call(", "def f(")
        .replace(")", "):\n    pass"),
        "same-change",
    ),
    Case(
        "an import that upstream has in one statement with another",
        _OPTIONS,
        "import os\nfrom kit import a\n" + _OPTIONS,
        _at(_OPTIONS, 'p.add_argument("--o2")', "from kit import a, b\n"),
        None,
    ),
    Case(
        "an import that upstream makes elsewhere",
        "import os\n" + _OPTIONS,
        "import os\nfrom kit import a\n" + _OPTIONS,
        "from kit import a, b\nimport os\n" + _OPTIONS,
        "from kit import a, b\nimport os\n" + _OPTIONS,
        "same-change",
    ),
    Case(
        "a statement that upstream has two lines on, past what knows nothing of it",
        _STEPS,
        _at(_STEPS, "    b = [0]", _IF),
        _at(_STEPS, "    return", _IF),
        _at(_STEPS, "    return", _IF),
        "same-change",
    ),
    Case(
        "a statement that upstream has two lines on, past what reads what it writes",
        _STEPS.replace("[1]", "[x]"),
        _at(_STEPS.replace("[1]", "[x]"), "    b = [0]", _IF),
        _at(_STEPS.replace("[1]", "[x]"), "    return", _IF),
        None,
    ),
    Case(
        "a decorator that upstream adds beside another",
        "@one\n@two\n@three\n@four\ndef f():\n    pass\n",
        "@one\n@two\n@three\n@new\n@four\ndef f():\n    pass\n",
        "@new\n@one\n@two\n@three\n@four\ndef f():\n    pass\n",
        None,
    ),
    Case(
        "a method that the patch renames to the name of one that upstream adds",
        _POOL,
        _POOL.replace("m3", "new"),
        _at(_POOL, "    def m1", _METHOD.format(5)).replace("return 3", "return 33"),
        None,
    ),
    Case(
        "a key that the patch renames to one that upstream adds",
        _TABLE,
        _TABLE.replace("'k6'", "'new'"),
        _at(_TABLE, "    'k2'", "    'new': 1,\n"),
        None,
    ),
    Case(
        "a key that both sides have twice already",
        _TABLE.replace("k1", "k2"),
        _at(_TABLE.replace("k1", "k2"), "    'k7'", "    'new': 1,\n"),
        "import os\n" + _TABLE.replace("k1", "k2"),
        "import os\n" + _at(_TABLE.replace("k1", "k2"), "    'k7'", "    'new': 1,\n"),
    ),
    Case(
        "a method between two that upstream adds as well",
        _POOL,
        _at(
            _POOL,
            "    def m4",
            "    def one(self):\n        return 1\n\n"
            + _METHOD.format(5)
            + "    def two(self):\n        return 2\n\n",
        ),
        _at(_POOL, "    def m1", _METHOD.format(5)),
        _at(
            _at(_POOL, "    def m1", _METHOD.format(5)),
            "    def m4",
            "    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n\n",
        ),
    ),
    Case(
        "a statement that the patch replaces with one that upstream adds elsewhere",
        _STEPS,
        _STEPS.replace("    c = [1]\n", "    c = [1, 2]\n    log(c)\n"),
        _at(_STEPS, "    a = g", "    log(c)\n"),
        None,
    ),
    Case(
        "an import beside one that upstream adds as well",
        "import os\nfrom kit import a\n\nX = a\n",
        "import os\nfrom far import b\nimport sys\nfrom kit import a\n\nX = a\n",
        "import sys\nimport os\nfrom kit import a\n\nX = a\n",
        "import sys\nimport os\nfrom far import b\nfrom kit import a\n\nX = a\n",
    ),
    Case(
        "imported names that are sorted whatever their case",
        "from kit import Alpha, beta, Delta\n",
        "from kit import Alpha, beta, Charlie, Delta\n",
        "from kit import Alpha, beta, camma, Delta\n",
        "from kit import Alpha, beta, camma, Charlie, Delta\n",
        "insertion-beside-insertion",
    ),
    Case(
        "imports of both kinds that are sorted by module",
        "import alpha\nfrom beta import b\nimport delta\nfrom omega import o\n",
        "import alpha\nfrom beta import b\nimport charlie\nimport delta\nfrom omega import o\n",
        "import alpha\nfrom beta import b\nfrom camma import c\nimport delta\n"
        "from omega import o\n",
        "import alpha\nfrom beta import b\nfrom camma import c\nimport charlie\nimport delta\n"
        "from omega import o\n",
        "insertion-beside-insertion",
    ),
    Case(
        "a line behind which upstream returns, with a comment between",
        "def f(x):\n    one(x)\n    # then\n    two(x)\n",
        "def f(x):\n    one(x)\n    # then\n    log(x)\n    two(x)\n",
        "def f(x):\n    return one(x)\n    # then\n    two(x)\n",
        None,
    ),
    Case(
        "a return of the patch before a line that upstream changes",
        "def f(x):\n    one(x)\n    # then\n    two(x)\n",
        "def f(x):\n    return one(x)\n    # then\n    two(x)\n",
        "def f(x):\n    one(x)\n    # then\n    two(x, 1)\n",
        None,
    ),
    Case(
        "a statement of which upstream makes two returns",
        "def f(x):\n    if x:\n        return g(\n            x,\n            y=1,\n        )\n",
        "def f(x):\n    if x:\n        if h(x):\n            return g(\n                x,\n"
        "                y=1,\n            )\n",
        "def f(x):\n    if x:\n        return k(x)\n        return g(\n            x,\n"
        "            y=2,\n        )\n",
        None,
    ),
    Case(
        "a line in a function that returns where nothing is reached",
        "def f(x):\n    one(x)\n    three(x)\n    return x\n    old(x)\n",
        "def f(x):\n    one(x)\n    two(x)\n    three(x)\n    return x\n    old(x)\n",
        "def f(x):\n    zero(x)\n    one(x)\n    three(x)\n    return x\n    old(x, 1)\n",
        "def f(x):\n    zero(x)\n    one(x)\n    two(x)\n    three(x)\n    return x\n"
        "    old(x, 1)\n",
    ),
)
