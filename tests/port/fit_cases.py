"""Changes that fit by their lines, and not by what they do: questions, beside look-alikes."""

from __future__ import annotations

from typing import Final

from rule_cases import Case

_ENUM: Final = "from enum import Enum\n\nclass E(Enum):\n    A = 1\n    B = 2\n"
_RECORD: Final = "@dataclass\nclass P:\n    a: int\n    b: int\n    c: int\n    d: int\n"
_FIELDS: Final = (
    "class P:\n    a: int = 1\n    b: int = 2\n    x = 0\n\n    def f(self):\n        pass\n"
)
_OPTIONS: Final = 'def f(p):\n    p.add_argument("--a")\n    p.add_argument("--b")\n    return p\n'
_BRANCHES: Final = """\
def f(x):
    if x == "a":
        one()
    elif x == "b":
        two()
    else:
        three()
    match x:
        case "a":
            one()
        case "b":
            two()
        case _:
            three()
    try:
        one()
    except A:
        two()
    except B:
        three()
    finally:
        four()
"""
_KEYS: Final = """\
@register("a")
def a():
    return 1

@register("b")
def b():
    return 2

def c():
    return 3
"""
_LOCAL: Final = """\
from typing import TYPE_CHECKING
from kit.a import A
from kit.b import B

def read(p):
    return p

def f(x, p):
    start(x)
    a(x)
    for i in x:
        b(i)
        c(i)
        d(i)
        e(i)
    for i in p:
        g(i)
    last(x)
    h(x)
"""
_CLASS: Final = """\
class Base:
    def __init__(self, a):
        self.a = a

    def hook(self):
        return 0

    def run(self):
        return self.hook()


class Child(Base):
    def __init__(self, a):
        super().__init__(a)
        self.b = 1

    def other(self):
        return 2


def call(a):
    return a


def use(y):
    one(y)
    two(y)
    return y
"""
_NESTED: Final = "def g(c, y):\n    for x in y:\n        a(x)\n        b(x)\n\n"


def _case(
    name: str, base: str, ours: str, theirs: str, *, both: bool = False, made: str = ""
) -> Case:
    """Return a case of edits ``old -> new``, in which ``|`` is the end of a line."""

    def edited(text: str, edits: str) -> str:
        for edit in edits.split(" ; "):
            old, new = (part.replace("|", "\n") for part in edit.split(" -> "))
            assert old in base, (name, old)
            text = text.replace(old, new)
        return text

    mine = edited(base, ours)
    result = edited(mine, theirs) if both else edited(base, made) if made else None
    return Case(name, base, mine, edited(base, theirs), result)


_FOR_TYPES: Final = (
    "from kit.a import A| ->  ; import B -> import B||if TYPE_CHECKING:|    from kit.a import A"
)
_RUN: Final = """\
from dataclasses import dataclass

n = 0

@dataclass
class P:
    a: int = 0

    def go(self):
        one(self.a)
        two(self.a)
        return self

def f(x):
    global n
    one(x)
    n += 1
    for i in x:
        a(i)
    two(x)
    y = b(x)
    if x.on:
        c(y)
    three(x)
    d = {
        "a": 1,
        "b": 2,
    }
    try:
        e(x)
    except KeyError:
        e(d)
    match x:
        case A():
            four(x)
    return d

"""
_HOOKS: Final = "    def other ->     def hook(self):|        return 5||    def other"

FITS: Final = (
    _case(
        "a body that ends at another depth",
        _LOCAL,
        f"def f(x, p) -> {_NESTED.replace(chr(10), '|')}def f(x, p)",
        f"def f(x, p) -> {_NESTED.replace(chr(10), '|').replace('        b', '    b')}def f(x, p)",
    ),
    _case(
        "one value of an enum twice",
        _ENUM,
        "    B = 2 ->     B = 2|    C = 3",
        "    B = 2 ->     B = 2|    D = 3",
    ),
    _case(
        "one value of an enum twice, apart",
        _ENUM,
        "    B = 2 ->     B = 2|    C = 3",
        "    A = 1 ->     D = 3|    A = 1",
    ),
    Case(
        "the last use of a type in a generic one",
        "class P:\n    def f(self, a: List[int], b: C):\n        return one(a, b)\n",
        "class P:\n    def f(self, a: array, b: C):\n        return one(a, b)\n",
        "class P:\n    def f(self, a: List[int], b: C) -> D:\n        return one(a, b)\n",
        "class P:\n    def f(self, a: array, b: C) -> D:\n        return one(a, b)\n",
    ),
    *(
        Case(
            f"a field of a class that {what}",
            _FIELDS,
            _FIELDS.replace("    x = 0\n", "    x = 0\n    c: int = 3\n"),
            _FIELDS.replace(*lost),
            wanted,
        )
        for what, lost, wanted in (
            ("has lost two of three", ("    a: int = 1\n    b: int = 2\n", ""), None),
            (
                "has lost one of three",
                ("    a: int = 1\n", ""),
                _FIELDS.replace("    a: int = 1\n", "").replace("0\n", "0\n    c: int = 3\n"),
            ),
        )
    ),
    _case(
        "fields without a default",
        _RECORD,
        "    d: int ->     d: int|    x: int",
        "    d: int ->     d: int|    y: int",
    ),
    _case(
        "a field without a default behind upstream's",
        _RECORD,
        "    d: int ->     d: int|    x: int",
        "    d: int ->     d: int|    y: int = 0",
    ),
    _case(
        "a default above a new field of upstream's",
        _RECORD,
        "    d: int ->     d: int = 1",
        "    d: int ->     d: int|    # more|    y: int",
    ),
    _case(
        "a short option twice",
        _OPTIONS,
        '"--b") -> "--b")|    p.add_argument("--x", "-x")',
        '"--b") -> "--b")|    p.add_argument("--y", "-x")',
    ),
    _case(
        "one attribute of two options",
        _OPTIONS,
        '"--b") -> "--b")|    p.add_argument("--x-y")',
        '"--a") -> "--a")|    p.add_argument("--x_y")',
    ),
    _case(
        "one attribute of two options by dest",
        _OPTIONS,
        '"--b") -> "--b")|    p.add_argument("--x", dest="y")',
        '"--a") -> "--a")|    p.add_argument("--y")',
    ),
    _case(
        "one key of a registry",
        _KEYS,
        '@register("a") -> @register("n")|def n():|    return 0||@register("a")',
        'def c() -> @register("n")|def m():|    return 5||def c()',
    ),
    _case(
        "two keys of a registry",
        _KEYS,
        '@register("a") -> @register("n")|def n():|    return 0||@register("a")',
        'def c() -> @register("m")|def m():|    return 5||def c()',
        both=True,
    ),
    _case(
        "a branch twice",
        _BRANCHES,
        '    elif x == "b" ->     elif x == "n":|        ours()|    elif x == "b"',
        '    else: ->     elif x == "n":|        theirs()|    else:',
    ),
    _case(
        "a case twice",
        _BRANCHES,
        '        case "b" ->         case "n":|            ours()|        case "b"',
        '        case _ ->         case "n":|            theirs()|        case _',
    ),
    _case(
        "an exception twice",
        _BRANCHES,
        "    except B ->     except N:|        ours()|    except B",
        "    finally ->     except N:|        theirs()|    finally",
    ),
    _case(
        "a local name of both sides",
        _LOCAL,
        "    start(x) ->     fh = make(x)|    start(x) ;     h(x) ->     h(fh)",
        "    last(x) ->     with p as fh:|        last(fh)",
    ),
    _case(
        "a loop over a name of both sides",
        _LOCAL,
        "    start(x) ->     for k in p:|        k()|    start(x)",
        "    last(x) ->     for k in p:|        last(k)",
        both=True,
    ),
    _case(
        "a parameter that upstream sets",
        _LOCAL,
        "f(x, p): -> f(x, p, n=0): ;     h(x) ->     h(n)",
        "    last(x) ->     n = 5|    last(n)",
    ),
    _case(
        "a local name instead of the module's",
        _LOCAL,
        "    h(x) ->     h(x)|    read(p)",
        "    a(x) ->     read = 5|    a(read)",
    ),
    _case(
        "a loop over another name",
        _LOCAL,
        "        d(i) ->         d(i)|        new(i)",
        "for i in x: -> for k in x: ; b(i) -> b(k) ; c(i) -> c(k) ; d(i) -> d(k) ; e(i) -> e(k)",
    ),
    _case(
        "an import for types alone",
        _LOCAL,
        "    h(x) ->     h(A(x))",
        _FOR_TYPES,
    ),
    _case(
        "a type whose import is for types alone",
        _LOCAL,
        "    h(x) ->     y: A = h(x)",
        _FOR_TYPES,
        both=True,
    ),
    _case("a method that the base class has no more", _CLASS, _HOOKS, "hook -> after_hook"),
    _case(
        "a method that takes more",
        _CLASS,
        _HOOKS,
        "def hook(self) -> def hook(self, step) ; self.hook() -> self.hook(1)",
    ),
    _case(
        "a method of which the base class changes",
        _CLASS,
        _HOOKS,
        "        return 0 ->         return 7",
        both=True,
    ),
    _case(
        "a method that upstream adds to the base class",
        _CLASS,
        _HOOKS.replace("hook", "flush"),
        "    def run ->     def flush(self):|        self.a = 0||    def run",
    ),
    _case(
        "an abstract method more",
        _CLASS,
        "def use -> class New(Base):|    def x(self):|        return 1|||def use",
        "    def run ->     @abstractmethod|    def must(self): ...||    def run",
    ),
    _case(
        "an attribute that hides a method",
        _CLASS,
        "        self.b = 1 ->         self.b = 1|        self.size = 3",
        "    def run ->     def size(self):|        return 1||    def run",
    ),
    _case(
        "a method that an attribute hides",
        _CLASS,
        _HOOKS.replace("hook", "size"),
        "        self.a = a ->         self.a = a|        self.size = 3",
    ),
    _case(
        "a method that is a property now",
        _CLASS,
        "        return 2 ->         return 2 + self.hook()",
        "    def hook ->     @property|    def hook ; self.hook() -> self.hook",
    ),
    _case(
        "a function that is a coroutine now",
        _CLASS,
        "    two(y) ->     two(y)|    call(y)",
        "def call -> async def call",
    ),
    _case(
        "a function that is a generator now",
        _CLASS,
        "    two(y) ->     two(y)|    call(y)",
        "    return a|| ->     yield a||",
    ),
    _case(
        "a function that returns two values now",
        _CLASS,
        "    two(y) ->     two(y)|    x = call(y)|    x()",
        "    return a|| ->     return a, 1||",
    ),
    _case(
        "a function that returns nothing now",
        _CLASS,
        "    two(y) ->     two(y)|    two(call(y))",
        "    return a|| ->     print(a)||",
    ),
    _case(
        "a value that is not used",
        _CLASS,
        "    two(y) ->     two(y)|    call(y)",
        "    return a|| ->     return a, 1||",
        both=True,
    ),
    _case(
        "a continue in a loop that upstream adds",
        _LOCAL,
        "        d(i) ->         if i:|            continue|        d(i)",
        "        c(i)|        d(i) ->         for k in p:|            c(i)|            d(i)",
    ),
    _case(
        "a call in a loop that upstream adds",
        _LOCAL,
        "        d(i) ->         if i:|            q(i)|        d(i)",
        "        c(i)|        d(i) ->         for k in p:|            c(i)|            d(i)",
        made="        c(i)|        d(i) ->         for k in p:|            c(i)|            if i:|"
        "                q(i)|            d(i)",
    ),
    _case(
        "a name that is set in a block that upstream adds",
        _LOCAL,
        "        d(i) ->         y = i|        d(i) ; e(i) -> e(y)",
        "        c(i)|        d(i) ->         if p:|            c(i)|            d(i)",
    ),
    _case(
        "a name that upstream deletes before",
        _LOCAL,
        "    h(x) ->     h(x, p)",
        "    last(x) ->     del p|    last(x)",
    ),
    _case(
        "an operator and its operand",
        "def f(r, a):\n    r += a\n    return r\n",
        "r += a -> r += a + 1",
        "r += a -> r -= a",
    ),
    _case(
        "a function to which upstream gives another one's name",
        _CLASS,
        "    two(y) ->     two(y)|    call(y)",
        "def call(a):|    return a -> def old(a):|    return a|||def call(a):|    return f(a)",
    ),
    _case(
        "an index of what upstream looks up in an index",
        "def f(a, x, b):\n    z = a[0] + b\n    return z\n",
        "a[0] -> a[x + 1]",
        "a[0] -> a[g(a[0])]",
    ),
    _case(
        "an index of what upstream gives to a function",
        "def f(a, x, b):\n    z = a[0] + b\n    return z\n",
        "a[0] -> a[x + 1]",
        "a[0] -> g(a[0])",
        made="a[0] -> g(a[x + 1])",
    ),
    *(
        _case(name, _RUN, ours, theirs, both=made == "both", made=made)
        for name, ours, theirs, made in (
            (
                "a value of a generator that upstream makes",
                "    one(x)|    n ->     if not x:|        return []|    one(x)|    n",
                "    return d ->     yield d",
                "",
            ),
            (
                "a generator of which upstream returns a value",
                "    return d ->     yield d",
                "    one(x)|    n ->     if not x:|        return []|    one(x)|    n",
                "",
            ),
            (
                "a name that upstream makes local",
                "    two(x) ->     two(x)|    n += 1",
                "    global n|    one(x)|    n += 1 ->     one(x)",
                "",
            ),
            (
                "a loop's variable of which upstream makes a comprehension's",
                "    three(x) ->     three(x)|    log(i)",
                "    for i in x:|        a(i) ->     z = [a(i) for i in x]",
                "",
            ),
            (
                "a loop's variable that upstream sets in an inner function",
                "    three(x) ->     three(x)|    log(i)",
                "    for i in x:|        a(i) ->     def go(i):|        a(i)|    go(x)",
                "",
            ),
            (
                "an element of which upstream makes a number",
                "        a(i) ->         a(i)|        log(i)",
                "for i in x:|        a(i) -> for i in range(len(x)):|        a(x[i])",
                "",
            ),
            (
                "an element that upstream counts",
                "        a(i) ->         log(i)|        a(i)",
                "for i in x -> for z, i in enumerate(x)",
                "for i in x:|        a(i) -> for z, i in enumerate(x):|        log(i)|        a(i)",
            ),
            (
                "an element that upstream sorts",
                "        a(i) ->         log(i)|        a(i)",
                "for i in x -> for i in sorted(x)",
                "for i in x:|        a(i) -> for i in sorted(x):|        log(i)|        a(i)",
            ),
            (
                "an element that upstream takes from elsewhere",
                "        a(i) ->         log(i)|        a(i)",
                "for i in x -> for i in load()",
                "",
            ),
            (
                "a value that upstream takes from another object",
                "    y = b(x) ->     y = b(x)|    log(y)",
                "y = b(x) -> y = x.b",
                "y = b(x) -> y = x.b|    log(y)",
            ),
            (
                "a value of which upstream tells whether it is there",
                "    y = b(x) ->     y = b(x)|    log(y)",
                "y = b(x) -> y = b(x) is None",
                "",
            ),
            (
                "a value of which upstream takes a part",
                "    y = b(x) ->     y = b(x)|    log(y)",
                "y = b(x) -> y = b(x)[0]",
                "",
            ),
            (
                "a value that upstream makes from more",
                "    y = b(x) ->     y = b(x)|    log(y)",
                "y = b(x) -> y = b(x, 1)",
                "y = b(x) -> y = b(x, 1)|    log(y)",
            ),
            (
                "a condition that upstream negates",
                "        c(y) ->         log(y)|        c(y)",
                "if x.on -> if not x.on",
                "",
            ),
            (
                "a condition to which upstream adds",
                "        c(y) ->         log(y)|        c(y)",
                "if x.on -> if x.on and y",
                "if x.on:|        c(y) -> if x.on and y:|        log(y)|        c(y)",
            ),
            (
                "a value beside those of which upstream makes tuples",
                '        "b": 2, ->         "b": 2,|        "c": 3,',
                '"a": 1,|        "b": 2, -> "a": (1, 1),|        "b": (2, 2),',
                "",
            ),
            (
                "an exception of a kind that upstream catches above",
                "        e(d) ->         e(d)|    except FileNotFoundError:|        log(d)",
                "        e(d) ->         e(d)|    except OSError:|        two(d)",
                "",
            ),
            (
                "a case of a match on another value",
                "        case A() ->         case B():|            log(x)|        case A()",
                "    match x: ->     match x.kind:",
                "",
            ),
            (
                "an attribute of a class that upstream freezes",
                "        two(self.a) ->         self.a = 1|        two(self.a)",
                "@dataclass| -> @dataclass(frozen=True)|",
                "",
            ),
            (
                "a new attribute of a class that upstream gives slots",
                "        two(self.a) ->         self.z = 1|        two(self.a)",
                "@dataclass| -> @dataclass(slots=True)|",
                "",
            ),
            (
                "a field of a class that upstream gives slots",
                "        two(self.a) ->         self.a = 1|        two(self.a)",
                "@dataclass| -> @dataclass(slots=True)|",
                "both",
            ),
        )
    ),
    _case(
        "a type parameter that upstream removes",
        "def g[T](x: T):\n    y = f(x)\n    one(x)\n    two(x)\n    return y\n",
        "two(x) -> two(cast(T, x))",
        "[T](x: T) -> (x: int)",
    ),
)
