"""Changes of both sides in one statement: what can be merged word by word, and what can not."""

from __future__ import annotations

from typing import Final

from rule_cases import Case

_IF: Final = "def f(a, b):\n    if a.x and b:\n        run(a)\n"
_WAKE: Final = "x = [e.wake.remote() for e in engines]\n"
_TOLD: Final = 'raise ValueError(f"the size {a.b} of this is wrong")\n'

WORDS: Final = (
    Case(
        "an expression that both put into a call",
        "x = a.b\n",
        "x = ours(a.b)\n",
        "x = theirs(a.b)\n",
        None,
    ),
    Case(
        "an expression that both put into a call by its keyword",
        "x = f((a + b) * c)\n",
        "x = f(ours(key=a + b) * c)\n",
        "x = f(theirs(key=a + b) * c)\n",
        None,
    ),
    Case(
        "an expression that one negates and the other one indexes",
        "def f(a):\n    return a.b\n",
        "def f(a):\n    return not a.b\n",
        "def f(a):\n    return a.b[0]\n",
        None,
    ),
    Case(
        "a sum in the place of what upstream multiplies",
        "x = f(a.b)\n",
        "x = f(a.b + ours)\n",
        "x = f(a.b * theirs)\n",
        None,
    ),
    Case(
        "a call that the patch uses and upstream puts into another one",
        "run(a)\n",
        "x = not run(a)\n",
        "theirs(run(a))\n",
        None,
    ),
    Case(
        "an argument of what upstream puts into another call",
        "x = run(a)\n",
        "x = run(a, ours=1)\n",
        "x = theirs(run(a))\n",
        "x = theirs(run(a, ours=1))\n",
    ),
    Case(
        "an argument of upstream's in what the patch puts into another call",
        "x = run(a)\n",
        "x = ours(run(a))\n",
        "x = run(a, theirs=1)\n",
        "x = ours(run(a, theirs=1))\n",
        "wrapped-expression",
    ),
    Case(
        "conditions that both have to be true",
        _IF,
        _IF.replace("and b", "and b and ours"),
        _IF.replace("and b", "and b and theirs"),
        _IF.replace("and b", "and b and theirs and ours"),
        "wrapped-expression",
    ),
    Case(
        "conditions of two operators",
        _IF,
        _IF.replace("and b", "and b and ours"),
        _IF.replace("and b", "and b or theirs"),
        None,
    ),
    Case(
        "defaults, of which the first one counts",
        "x = a.x or b\n",
        "x = a.x or b or ours\n",
        "x = a.x or b or theirs\n",
        None,
    ),
    Case(
        "a name and an argument in one expression",
        _WAKE,
        _WAKE.replace("()", "(tags=ours)"),
        _WAKE.replace("wake", "theirs"),
        _WAKE.replace("wake.remote()", "theirs.remote(tags=ours)"),
        "words-apart",
    ),
    Case(
        "an argument of a call that upstream awaits no more",
        "async def f(a):\n    await run(a.b, 1)\n",
        "async def f(a):\n    await run(a.b, ours)\n",
        "async def f(a):\n    run(a.b, 1)\n",
        "async def f(a):\n    run(a.b, ours)\n",
    ),
    Case(
        "values in different places of a string",
        'x = f"{a} and {b} are"\n',
        'x = f"{ours} and {b} are"\n',
        'x = f"{a} and {theirs} are"\n',
        'x = f"{ours} and {theirs} are"\n',
        "words-apart",
    ),
    Case(
        "words in different places of a message",
        _TOLD,
        _TOLD.replace("is wrong", "is not right"),
        _TOLD.replace("the size", "the whole size"),
        _TOLD.replace("is wrong", "is not right").replace("the size", "the whole size"),
        "words-apart",
    ),
    Case(
        "words of a message that stand side by side",
        _TOLD,
        _TOLD.replace("of this", "of that"),
        _TOLD.replace("is wrong", "was wrong"),
        None,
    ),
    Case(
        "a limit that both correct",
        "def f(a):\n    if a.b < 3:\n        run(a)\n",
        "def f(a):\n    if a.b <= 3:\n        run(a)\n",
        "def f(a):\n    if a.b < 4:\n        run(a)\n",
        None,
    ),
    Case(
        "the ends of a name with dots",
        "from kit.one.two import a\n",
        "from ours.one.two import a\n",
        "from kit.one.theirs import a\n",
        None,
    ),
    Case(
        "a word that is there more than once",
        'x = "one and one and one are few"\n',
        'x = "one and one are few"\n',
        'x = "one and one and one more are few"\n',
        None,
    ),
    Case(
        "a statement of upstream's that only looks like it",
        "def f(a, b):\n    first(a)\n    run(a.b, 1)\n    last(a)\n",
        "def f(a, b):\n    first(a)\n    run(a.b, 2)\n    last(a)\n",
        "def f(a, b):\n    first(a)\n    y = log(b.b, 1)\n    last(a)\n",
        None,
    ),
    Case(
        "an argument of a decorator that upstream breaks into lines",
        '@register("one", "two")\ndef f():\n    pass\n',
        '@register("one", "two", "ours")\ndef f():\n    pass\n',
        '@register(\n    "one",\n    "two",\n)\ndef f():\n    pass\n',
        '@register("one", "two", "ours")\ndef f():\n    pass\n',
    ),
    Case(
        "a default of a parameter that upstream annotates",
        "def f(a, b=1):\n    pass\n",
        "def f(a, b=2):\n    pass\n",
        "def f(a, b: int = 1):\n    pass\n",
        "def f(a, b: int = 2):\n    pass\n",
        "tokens-disjoint",
    ),
    Case(
        "an annotation of a parameter whose default upstream changes",
        "def f(a, b=1):\n    pass\n",
        "def f(a, b: int = 1):\n    pass\n",
        "def f(a, b=2):\n    pass\n",
        "def f(a, b: int = 2):\n    pass\n",
        "tokens-disjoint",
    ),
    Case(
        "a default of a parameter that upstream gives another one, annotated",
        "def f(a, b=1):\n    pass\n",
        "def f(a, b=2):\n    pass\n",
        "def f(a, b: int = 3):\n    pass\n",
        None,
    ),
    Case(
        "an annotation of a value that upstream changes",
        "X = one(1)\n",
        "X: int = one(1)\n",
        "X = one(2)\n",
        "X: int = one(2)\n",
        "tokens-disjoint",
    ),
    Case(
        "annotations of both, of which one is another",
        "X = one(1)\n",
        "X: int = one(1)\n",
        "X: float = one(2)\n",
        None,
    ),
    Case(
        "what a function returns, where upstream changes its parameters",
        "def f(a):\n    pass\n",
        "def f(a) -> int:\n    pass\n",
        "def f(a, b=1):\n    pass\n",
        "def f(a, b=1) -> int:\n    pass\n",
    ),
)
