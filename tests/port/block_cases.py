"""Changes of a block, a name or a place on which both sides count, in one function."""

from __future__ import annotations

from typing import Final

from rule_cases import Case

_F: Final = """\
n = 0

def f(x, y):
    one(x)
    two(x)
    if x.a:
        three(x)
    try:
        four(x)
    except A:
        five(x)
    return y
"""
_IF: Final = "    if x.a:\n        three(x)\n"
_TRY: Final = "    try:\n        four(x)\n    except A:\n        five(x)\n"
_ELSE: Final = "    else:\n        log(x)\n"
_EXCEPT: Final = "    except B:\n        six(x)\n"


def _deep(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


_IF_IN_IF: Final = "    if y:\n" + _deep(_IF)
_TRY_IN_TRY: Final = "    try:\n" + _deep(_TRY) + "    except C:\n        five(x)\n"


def _case(
    name: str, ours: tuple[str, str], theirs: tuple[str, str], made: tuple[str, str] | None
) -> Case:
    """Return a case in which each side replaces one text of the function by another one."""
    sides = [_F.replace(*pair) if pair else None for pair in (ours, theirs, made)]
    assert None not in sides[:2]
    return Case(name, _F, str(sides[0]), str(sides[1]), sides[2])


BLOCKS: Final = (
    _case(
        "an else of a condition that upstream puts under another one",
        (_IF, _IF + _ELSE),
        (_IF, _IF_IN_IF),
        (_IF, "    if y:\n" + _deep(_IF + _ELSE)),
    ),
    _case(
        "a condition around one to which upstream adds an else",
        (_IF, _IF_IN_IF),
        (_IF, _IF + _ELSE),
        (_IF, "    if y:\n" + _deep(_IF + _ELSE)),
    ),
    _case(
        "an except of a try that upstream puts into another one",
        (_TRY, _TRY + _EXCEPT),
        (_TRY, _TRY_IN_TRY),
        (_TRY, _TRY_IN_TRY.replace(_deep(_TRY), _deep(_TRY + _EXCEPT))),
    ),
    _case(
        "a renamed parameter that upstream changes",
        ("f(x, y)", "f(x, z)"),
        ("    one(x)\n", "    one(x)\n    y = y + 1\n"),
        None,
    ),
    _case(
        "a renamed parameter that upstream adds to",
        ("f(x, y)", "f(x, z)"),
        ("    one(x)\n", "    one(x)\n    y += 1\n"),
        None,
    ),
    Case(
        "a new value for a parameter that upstream renames",
        "def f(x, y=6):\n    x = max(x, y)\n    two(0)\n    return y\n",
        "def f(x, y=6, s=6):\n    x = x + s\n    x = max(x, y)\n    two(0)\n    return y\n",
        "def f(z, y=6):\n    z = max(z, y)\n    if y:\n        two(0)\n    return y\n",
        None,
    ),
    _case(
        "a local name which upstream takes from the module",
        ("    return y", "    n = y.n\n    return n"),
        ("    one(x)\n", "    one(x)\n    zero(n)\n"),
        None,
    ),
    _case(
        "a local name which upstream takes from Python",
        ("    return y", "    len = y.n\n    return len"),
        ("    one(x)\n", "    one(x)\n    zero(len(x))\n"),
        None,
    ),
    _case(
        "a function with a name of the module that upstream makes a local one",
        ("    one(x)\n", "    one(x)\n    def g():\n        return n\n"),
        ("    return y", "    n = y.n\n    return n"),
        None,
    ),
    Case(
        "a renamed name of a method, which upstream sets, and which another method has, too",
        "class C:\n    def f(self, x):\n        x = one(x)\n        two(0)\n        return x\n\n"
        "    def g(self, x):\n        return x\n",
        "class C:\n    def f(self, y):\n        y = one(y)\n        two(0)\n        return y\n\n"
        "    def g(self, x):\n        return x\n",
        "class C:\n    def f(self, x):\n        x = one(x)\n        x = new(2)\n        two(0)\n"
        "        return x\n\n    def g(self, x):\n        return x\n",
        None,
    ),
    Case(
        "a class cut in two, to whose end upstream adds a method",
        "class A:\n    def a(self):\n        return 1\n\n    def b(self):\n        return 2\n",
        "class A:\n    def a(self):\n        return 1\n\n\nclass B:\n    def b(self):\n"
        "        return 2\n",
        "class A:\n    def a(self):\n        return 1\n\n    def b(self):\n        return 2\n\n"
        "    def c(self):\n        return self.a()\n",
        None,
    ),
    Case(
        "a statement that both move",
        "one(x)\ntwo(x)\nthree(x)\nfour(x)\nfive(x)\n",
        "one(x)\ntwo(x)\nfour(x)\nfive(x)\nthree(x)\n",
        "three(x)\none(x)\ntwo(x)\nfour(x)\nfive(x)\n",
        None,
    ),
    Case(
        "a statement put into a block below one of upstream's that changes what it reads",
        "def f(x):\n    a = x\n    with q:\n        g(a)\n    return 8\n",
        "def f(x):\n    with z:\n        a = x\n        with q:\n            g(a, 5)\n"
        "    return 8\n",
        "def f(x):\n    a = x\n    x = close(x)\n    with q:\n        g(a)\n    return 8\n",
        None,
    ),
    _case(
        "a call behind which upstream adds one, put into a block",
        ("    two(x)\n", "    with y:\n        two(x)\n"),
        ("    two(x)\n", "    two(x)\n    zero(x)\n"),
        None,
    ),
    _case(
        "a call beside one that upstream puts into a block",
        ("    two(x)\n", "    two(x)\n    zero(x)\n"),
        ("    two(x)\n", "    with y:\n        two(x)\n"),
        None,
    ),
    _case(
        "a call that is wrapped beside an assignment of its own",
        ("    two(x)\n", "    with y:\n        two(x)\n"),
        ("    two(x)\n", "    two(x)\n    z = 1\n"),
        ("    two(x)\n", "    with y:\n        two(x)\n    z = 1\n"),
    ),
    Case(
        "a statement moved below a new one of upstream's that uses it",
        "def f(x):\n    one(x)\n    x.a = 1\n    two(x)\n    three(x)\n    four(x)\n    five(x)\n",
        "def f(x):\n    one(x)\n    two(x)\n    three(x)\n    four(x)\n    x.a = 1\n    five(x)\n",
        "def f(x):\n    one(x)\n    x.a = 1\n    two(x)\n    new(x)\n    three(x)\n    four(x)\n"
        "    five(x)\n",
        None,
    ),
    *(
        Case(
            f"{what} moved below an option that upstream adds",
            f"def f(p):\n    {line}\n    two(p)\n    three(p)\n    four(p)\n    five(p)\n",
            f"def f(p):\n    two(p)\n    three(p)\n    four(p)\n    {line}\n    five(p)\n",
            f'def f(p):\n    {line}\n    two(p)\n    p.add_argument("--b")\n    three(p)\n'
            "    four(p)\n    five(p)\n",
            wanted,
        )
        for what, line, wanted in (
            (
                "an option",
                'p.add_argument("--a")',
                (
                    'def f(p):\n    two(p)\n    p.add_argument("--b")\n    three(p)\n    four(p)\n'
                    '    p.add_argument("--a")\n    five(p)\n'
                ),
            ),
            ("a call", "one(p)", None),
        )
    ),
    Case(
        "a value that another argument uses",
        "f(\n    a=1,\n)\n",
        "f(\n    a=1,\n    b=(q := 1),\n)\n",
        "f(\n    a=1,\n    c=q,\n)\n",
        None,
    ),
    Case(
        "an argument that takes from what another one reads",
        "f(\n    a=1,\n)\n",
        "f(\n    a=1,\n    b=x.pop(),\n)\n",
        "f(\n    a=1,\n    c=len(x),\n)\n",
        None,
    ),
    Case(
        "two imports under one name",
        "from x import (\n    a,\n)\n",
        "from x import (\n    a,\n    b as d,\n)\n",
        "from x import (\n    a,\n    c as d,\n)\n",
        None,
    ),
)
