"""Additions of both sides that are the same in part, and look-alikes."""

from __future__ import annotations

from typing import Final

from rule_cases import Case

_CALLS: Final = "def f(x):\n    one(x)\n    two(x)\n"
_POOL: Final = "class Pool:\n    def one(self):\n        return 1\n"


def _between(text: str) -> str:
    """Return the calls with more between them."""
    return _CALLS.replace("    two", f"    {text}\n    two")


def _pool(text: str) -> str:
    """Return the class with a method more."""
    return _POOL + "\n    def clear(self):\n" + "".join(f"        {x}\n" for x in text.split("; "))


_HELPER: Final = """\
    class A:
        def f(self, req):
            one(req)
            two(req)
    """
_HELPED: Final = """\
    class A:
        def keep(self, req):
            "Keep it."
            req.kept = self.table.get(req.slot)

        def f(self, req):
            one(req)
            self.keep(req)
            two(req)
    """
_KEPT: Final = _HELPER.replace(
    "        two", "        req.kept = self.table.get(req.slot)\n            two"
)
_WRAPPED: Final = (
    "def f(x):\n    if fast:\n        return quick(x)\n    else:\n        return g(x, more)\n"
)

_CHECKS: Final = (
    "def f(check):\n    lib = load(1)\n    check(two, [4, 5, 6])\n    one(lib)\n    last(lib)\n"
)
_MASK: Final = "def f(a, b):\n    m = mask(b)\n    use(m)\n"

PARTS: Final = (
    Case(
        "a call to which upstream gives another argument",
        _CALLS,
        _between("y = call(x, a=1)"),
        _between("y = call(x, a=1, b=2)"),
        _between("y = call(x, a=1, b=2)"),
        "same-change",
    ),
    Case(
        "a call to which the patch gives another argument",
        _CALLS,
        _between("y = call(x, 1, b=2)"),
        _between("y = call(x, 1)"),
        _between("y = call(x, 1, b=2)"),
        "part-of-the-change",
    ),
    Case(
        "calls of which each has an argument of its own",
        _CALLS,
        _between("y = call(x, a=1)"),
        _between("y = call(x, b=2)"),
        None,
    ),
    Case(
        "a call whose positions differ",
        _CALLS,
        _between("y = call(x, b)"),
        _between("y = call(x, a, b)"),
        None,
    ),
    Case("other values for one name", _CALLS, _between("x.a = None"), _between("x.a = []"), None),
    Case("other lists for one name", _CALLS, _between("x.a = []"), _between("x.a = [1]"), None),
    Case(
        "a condition that asks for more",
        _CALLS,
        _between("if on(x):\n        call(x)"),
        _between("if on(x, y):\n        call(x)"),
        None,
    ),
    Case(
        "a call that upstream makes if its object is there",
        _CALLS,
        _between("x.b.call(1)"),
        _between("if x.b is not None:\n        x.b.call(1)"),
        _between("if x.b is not None:\n        x.b.call(1)"),
        "same-change",
    ),
    Case(
        "a call that upstream makes under a condition of another thing",
        _CALLS,
        _between("x.b.call(1)"),
        _between("if x.c is not None:\n        x.b.call(1)"),
        None,
    ),
    Case(
        "a call that upstream makes if its object is not there",
        _CALLS,
        _between("x.b.call(1)"),
        _between("if x.b is None:\n        x.b.call(1)"),
        None,
    ),
    Case(
        "a call that the patch makes under a condition",
        _CALLS,
        _between("if x.on:\n        call(x)"),
        _between("call(x)"),
        _between("if x.on:\n        call(x)"),
        "part-of-the-change",
    ),
    Case(
        "a call that the patch makes in both branches",
        _CALLS,
        _between("if x.on:\n        call(x)\n    else:\n        call(x)"),
        _between("call(x)"),
        None,
    ),
    Case(
        "a call in a loop of the patch",
        _CALLS,
        _between("for y in x:\n        call(x)"),
        _between("call(x)"),
        None,
    ),
    Case(
        "a method of which upstream has a part, with a docstring",
        _POOL,
        _pool("self.abort(); self.queue.clear()"),
        _pool('"""Remove all."""; self.queue.clear()'),
        _pool('"""Remove all."""; self.abort(); self.queue.clear()'),
        "part-of-the-change",
    ),
    Case(
        "a method in which upstream does more",
        _POOL,
        _pool("self.queue.clear()"),
        _pool("# Before the rest.; self.abort(); self.queue.clear()"),
        _pool("# Before the rest.; self.abort(); self.queue.clear()"),
        "same-change",
    ),
    Case(
        "a method that upstream ends before",
        _POOL,
        _pool("self.queue.clear()"),
        _pool("return; self.queue.clear()"),
        None,
    ),
    Case(
        "methods of which each does something of its own",
        _POOL,
        _pool("self.abort(); self.queue.clear()"),
        _pool("self.queue.clear(); self.stop()"),
        None,
    ),
    Case(
        "a parameter to which upstream gives a default",
        "def f(\n    a,\n    b=1,\n):\n    pass\n",
        "def f(\n    a,\n    c: int,\n    b=1,\n):\n    pass\n",
        "def f(\n    a,\n    c: int = 0,\n    b=1,\n):\n    pass\n",
        "def f(\n    a,\n    c: int = 0,\n    b=1,\n):\n    pass\n",
        "same-change",
    ),
    Case(
        "a parameter to which upstream gives another type",
        "def f(\n    a,\n    b=1,\n):\n    pass\n",
        "def f(\n    a,\n    c: int,\n    b=1,\n):\n    pass\n",
        "def f(\n    a,\n    c: str = '',\n    b=1,\n):\n    pass\n",
        None,
    ),
    Case(
        "a branch in which only the patch has a comment",
        "def f(x):\n    if x.a:\n        y = 1\n    elif x.c:\n        y = 3\n",
        "def f(x):\n    if x.a:\n        y = 1\n    elif x.b:\n        # Before c.\n        y = 2\n"
        "    elif x.c:\n        y = 3\n",
        "def f(x):\n    if x.a:\n        y = 1\n    elif x.b:\n        y = 2\n"
        "    elif x.c:\n        y = 3\n",
        "def f(x):\n    if x.a:\n        y = 1\n    elif x.b:\n        y = 2\n"
        "    elif x.c:\n        y = 3\n",
        "same-change",
    ),
    Case(
        "a statement that upstream makes in a method of its own",
        _HELPER,
        _KEPT,
        _HELPED,
        _HELPED,
        "same-change",
    ),
    Case(
        "a method that does more than the statement",
        _HELPER,
        _KEPT,
        _HELPED.replace("slot)\n", "slot)\n            req.done = 1\n"),
        None,
    ),
    Case(
        "a method that is given something else",
        _HELPER,
        _KEPT,
        _HELPED.replace("self.keep(req)", "self.keep(other)"),
        None,
    ),
    Case(
        "a local variable, which a method would keep for itself",
        _HELPER,
        _KEPT.replace("req.kept", "kept"),
        _HELPED.replace("req.kept", "kept"),
        None,
    ),
    Case(
        "a replacement that upstream has in a branch",
        "def f(x):\n    return g(x)\n",
        "def f(x):\n    return g(x, more)\n",
        _WRAPPED,
        _WRAPPED,
        "same-change",
    ),
    Case(
        "a replacement that upstream has in one of two branches",
        "def f(x):\n    return g(x)\n",
        "def f(x):\n    return g(x, more)\n",
        _WRAPPED.replace("quick(x)", "g(x)"),
        None,
    ),
    Case(
        "a statement that upstream makes of its neighbour",
        _MASK,
        _MASK.replace("    use", "    m = join(a, m)\n    use"),
        _MASK.replace("m = mask(b)", "if a:\n        m = mask(a, b)\n    m = join(a, m)"),
        None,
    ),
    Case(
        "a statement that the patch makes of another one, and upstream adds",
        _CALLS,
        _CALLS.replace("two(x)", "three(x)"),
        _CALLS.replace("one(x)", "three(x)\n    zero(x)\n    one(x)"),
        None,
    ),
    Case(
        "an import that the patch makes of another one, and upstream adds",
        "from kit.alpha import a\nfrom kit.utils import seed\n\nX = (a, seed)\n",
        "from kit.alpha import a\nfrom kit.plat import now\n\nX = (a, now.seed)\n",
        "from kit.alpha import a\nfrom kit.plat import now\nfrom kit.utils import seed\n"
        "\nX = (a, seed)\nY = now.y\n",
        "from kit.alpha import a\nfrom kit.plat import now\n\nX = (a, now.seed)\nY = now.y\n",
        "same-change",
    ),
    Case(
        "a statement beside one that upstream moved to another function",
        _CHECKS,
        _CHECKS.replace("    check(two", "    check(zero, [1, 2, 3])\n    check(two"),
        "def other(check):\n    check(two, [4, 5, 6])\n\n\n"
        + _CHECKS.replace("    check(two, [4, 5, 6])\n", ""),
        None,
    ),
    Case(
        "a statement beside one that upstream removed",
        _CHECKS,
        _CHECKS.replace("    check(two", "    check(zero, [1, 2, 3])\n    check(two"),
        _CHECKS.replace("    check(two, [4, 5, 6])\n", ""),
        _CHECKS.replace("    check(two, [4, 5, 6])\n", "    check(zero, [1, 2, 3])\n"),
        "neighbour-removed",
    ),
)
