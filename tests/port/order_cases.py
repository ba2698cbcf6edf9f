"""Two insertions at one place: what each does decides whether their order matters."""

from __future__ import annotations

from typing import Final

from rule_cases import Case

_FUNCTION: Final = """\
def f(self, x, y):
    seen = []
    names = {}
    first(x)
    last(y)
    return seen, names
"""


def _case(name: str, ours: str, theirs: str, *, both: bool, around: str = _FUNCTION) -> Case:
    """Return a case in which both stay, the patch's first, or a question."""

    def put(text: str) -> str:
        before, call, behind = around.partition("last(y)")
        indent = before.rpartition("\n")[2]
        return before + text.replace("\n", f"\n{indent}") + f"\n{indent}" + call + behind

    made = put(f"{ours}\n{theirs}") if both else None
    return Case(name, around, put(ours), put(theirs), made, "insertion-beside-insertion")


_TRIED: Final = """\
def f(self, x, y):
    try:
        first(x)
        last(y)
    finally:
        end()
"""
_LOOP: Final = """\
def f(self, x, y):
    for z in x:
        first(z)
        last(y)
"""
_ALIAS: Final = _FUNCTION.replace("names = {}", "names = seen")
_GIVEN: Final = _FUNCTION.replace("x, y):", "x, y, given=[]):")

_CLASS: Final = """\
class C:
    @property
    def total(self):
        return self.n

    def f(self, x, y):
        first(x)
        last(y)
"""
ORDERS: Final = (
    _case("a log beside a call", 'logger.info("at %s", x)', "g(y)", both=True),
    _case("a log beside another log", 'logger.info("a")', 'logger.info("b")', both=False),
    _case(
        "a log of what upstream's call may change", "logger.info(self.a)", "self.g()", both=False
    ),
    _case("a log of what a call gives", "logger.info(h(x))", "g(y)", both=False),
    _case("a log beside a return", "logger.info('a')", "if x:\n    return None", both=False),
    _case("containers of the function", "seen.append(x)", "names.update(a=y)", both=True),
    _case("an attribute of what may be one object", "x.a = 1", "z = y.a", both=False),
    _case("one container twice", "seen.append(x)", "seen.append(y)", both=False),
    _case("a container beside a call", "seen.append(x)", "g(y)", both=False),
    _case(
        "a container that the caller may give",
        "given.append(x)",
        "seen.append(y)",
        both=False,
        around=_GIVEN,
    ),
    _case(
        "containers of the caller, which may be one",
        "x.append(1)",
        "y.append(2)",
        both=False,
    ),
    _case(
        "one container by two names", "seen.append(x)", "names.append(y)", both=False, around=_ALIAS
    ),
    _case("a container that is read", "n = len(seen)", "seen.append(y)", both=False),
    _case("an assertion beside a local variable", "assert x > 0", "z = y + 1", both=True),
    _case("a guard beside a local variable", "if not x:\n    return None", "z = y.n", both=True),
    _case(
        "a guard of what is read behind it", "if y is None:\n    return None", "z = y.n", both=False
    ),
    _case("a guard beside an attribute", "if not x:\n    return None", "self.z = 1", both=False),
    _case("a guard beside a call", "if not x:\n    return None", "z = g(y)", both=False),
    _case("two guards", "if not x:\n    return None", "if not y:\n    raise E", both=False),
    _case(
        "a guard beside a local variable in a block that ends with something",
        "if not x:\n    return None",
        "z = y + 1",
        both=False,
        around=_TRIED,
    ),
    _case(
        "an end of a loop, behind which variables are read",
        "if not x:\n    break",
        "z = y + 1",
        both=False,
        around=_LOOP,
    ),
    _case(
        "a wait beside a local variable",
        "await x",
        "z = y + 1",
        both=False,
        around=_FUNCTION.replace("def f", "async def f"),
    ),
    _case("different attributes", "self.a = x", "self.b = y", both=True),
    _case("an item of what may be one object", "x[0] = 1", "z = y[0]", both=False),
    _case("different items", "x['a'] = 1", "z = y['b']", both=True),
    _case("a class that reads a name at once", "class G:\n    n = q", "q = 1", both=False),
    _case("a class with such a name of its own", "class G:\n    q = 2", "q = 1", both=True),
    _case("a property of what is set", "self.n = x", "z = self.total", both=False, around=_CLASS),
    _case("an attribute of its own", "self.n = x", "z = self.other", both=True, around=_CLASS),
    _case("positional options", 'x.add_argument("a")', 'x.add_argument("b")', both=False),
    _case("options", 'x.add_argument("--a")', 'x.add_argument("b")', both=True),
    _case(
        "different attributes under conditions",
        "if x:\n    self.a = 1",
        "if y:\n    self.b = 2",
        both=True,
    ),
    _case("an attribute of what upstream binds", "z.a = x", "z = y", both=False),
)
