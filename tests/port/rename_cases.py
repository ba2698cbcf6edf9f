"""Renames of operands by upstream, which the lines of a patch follow, and look-alikes."""

from __future__ import annotations

from typing import Final

from rule_cases import Case

_REPLAY: Final = """\
    class Runner:
        def __init__(self):
            self.size = make()
            self.hidden = make()
            self.first = make()

        def replay(self, batch):
            n = len(batch)
            if n:
                self.size.zero_()
                self.hidden.zero_()
            self.size[:n].copy_(batch.size)
            return self.run(n)
    """
_BUFFERED: Final = """\
    class Runner:
        def __init__(self):
            self.buffers = make()

        def replay(self, batch):
            buffers = self.buffers
            n = len(batch)
            if n:
                buffers.size.zero_()
                buffers.hidden.zero_()
            buffers.size[:n].copy_(batch.size)
            return self.run(n)
    """
_FILLED: Final = _REPLAY.replace(
    "hidden.zero_()", "hidden.zero_()\n                self.size.fill_(1)"
)
_BOTH: Final = _BUFFERED.replace("self.buffers = make()", "self.buffers = self.size = make()")
_FOLDED: Final = """\
    def f(x, size, rate):
        one(x)
        two(x, size)
        three(x, rate=rate)
        return g(size, rate)
    """
_LENGTH: Final = """\
    def f(a):
        n = len(a)
        log(n)
        return n
    """
_SIZE: Final = (
    _LENGTH.replace("n = len", "size = len")
    .replace("log(n)", "log(size)")
    .replace("return n", "return size")
)
_ARGS: Final = """\
    def f(x, args: Args):
        one(x)
        two(x, args.size)
        three(x, rate=args.rate)
        return g(args.size, args.rate)
    """
_LOCAL: Final = """\
    def f(requests):
        done = take(requests)
        start(done)
        return list(done)
    """
_PAIR: Final = "def f(self, k):\n    one(k)\n    return run(self.n, self.m, k)\n"
_EXCHANGED: Final = _PAIR.replace("self.n, self.m", "self.m, self.n")
_FIELDS: Final = "class A:\n    n: int = 0\n{}{}{}\n\nclass C:\n    x: int\n"
_FIELDS_OF_B: Final = "\n\nclass B:\n    b: List[bytes]\n    c: List[int]\n    d: List[str]\n"

RENAMES: Final = (
    Case(
        "attributes that upstream moved into an object",
        _REPLAY,
        _REPLAY.replace("copy_(batch.size)", "copy_(batch.size.clamp(0, 1))").replace(
            "hidden.zero_()", "hidden.zero_()\n                self.size.fill_(1)"
        ),
        _BUFFERED,
        _BUFFERED.replace("copy_(batch.size)", "copy_(batch.size.clamp(0, 1))").replace(
            "hidden.zero_()", "hidden.zero_()\n                buffers.size.fill_(1)"
        ),
        "renamed-operand",
    ),
    Case(
        "attributes in an object that is made below the patch's line",
        _REPLAY,
        _REPLAY.replace("n = len", "self.size.fill_(1)\n            n = len"),
        _BUFFERED.replace("            buffers = self.buffers\n", "").replace(
            "n = len(batch)", "n = len(batch)\n            buffers = self.buffers"
        ),
        None,
    ),
    Case(
        "an attribute of which upstream leaves one use",
        _REPLAY,
        _FILLED,
        _BUFFERED.replace("return self.run(n)", "return self.run(n, self.size)"),
        None,
    ),
    Case(
        "an attribute that the class still has: it may mean this one",
        _REPLAY,
        _FILLED,
        _BOTH,
        _BOTH.replace("hidden.zero_()", "hidden.zero_()\n                self.size.fill_(1)"),
        "neighbour-changed",
    ),
    Case(
        "an attribute that upstream uses for something else, too",
        _REPLAY,
        _FILLED,
        _BUFFERED.replace("buffers.size.zero_()", "buffers.size.fill_(2)"),
        None,
    ),
    Case(
        "an argument beside an attribute that upstream replaces",
        "class A:\n    def g(self):\n        self.a = 1\n\n    def f(self):\n"
        "        one()\n        return run(self.a, 1)\n",
        "class A:\n    def g(self):\n        self.a = 1\n\n    def f(self):\n"
        "        one()\n        return run(self.a, 2)\n",
        "class A:\n    def g(self):\n        self.b = 2\n\n    def f(self):\n"
        "        one()\n        return run(self.b, 1)\n",
        "class A:\n    def g(self):\n        self.b = 2\n\n    def f(self):\n"
        "        one()\n        return run(self.b, 2)\n",
        "tokens-disjoint",
    ),
    Case(
        "a local variable that the patch's statement uses",
        _LOCAL,
        _LOCAL.replace("start(done)", "start(done)\n        report(done)"),
        _LOCAL.replace("done", "taken"),
        _LOCAL.replace("done", "taken").replace(
            "start(taken)", "start(taken)\n        report(taken)"
        ),
        "renamed-operand",
    ),
    Case(
        "a local variable that upstream makes in another way",
        _LOCAL,
        _LOCAL.replace("start(done)", "start(done)\n        report(done)"),
        _LOCAL.replace("done", "taken").replace("take(", "take_all("),
        None,
    ),
    Case(
        "a local variable that becomes one that was there before",
        _LOCAL.replace("start", "taken = 1\n        start"),
        _LOCAL.replace("start(done)", "taken = 1\n        start(done)\n        report(done)"),
        _LOCAL.replace("done", "taken"),
        None,
    ),
    Case(
        "a name in an argument that the patch replaces",
        "class A:\n    def g(self):\n        self.old = None\n\n    def f(self, x):\n"
        "        one(x, size=size(self.old))\n        two(x, size=size(self.old))\n",
        "class A:\n    def g(self):\n        self.old = None\n\n    def f(self, x):\n"
        "        one(x, size=8)\n        two(x, size=8)\n",
        "class A:\n    def g(self):\n        self.new = None\n\n    def f(self, x):\n"
        "        one(x, size=size(self.new))\n        two(x, size=size(self.new))\n",
        "class A:\n    def g(self):\n        self.new = None\n\n    def f(self, x):\n"
        "        one(x, size=8)\n        two(x, size=8)\n",
        "renamed-operand",
    ),
    Case(
        "parameters that upstream folds into an object",
        _FOLDED,
        _FOLDED.replace("two(x, size)", "two(x, size)\n        limit(rate, size=size)"),
        _ARGS,
        _ARGS.replace(
            "two(x, args.size)", "two(x, args.size)\n        limit(args.rate, size=args.size)"
        ),
        "renamed-operand",
    ),
    Case(
        "parameters that get other names in an object",
        _FOLDED,
        _FOLDED.replace("two(x, size)", "two(x, size)\n        limit(rate, size=size)"),
        _ARGS.replace("args.size", "args.amount"),
        None,
    ),
    Case(
        "a parameter that upstream folds and changes",
        _FOLDED,
        _FOLDED.replace("two(x, size)", "two(x, size)\n        limit(rate, size=size)"),
        _ARGS.replace("two(x, args.size)", "two(x, args.size + 1)"),
        None,
    ),
    Case(
        "a signature to which the patch adds, and that upstream folds",
        _FOLDED,
        _FOLDED.replace("rate):", "rate, more):").replace("g(size", "g(more, size"),
        _ARGS,
        None,
    ),
    Case(
        "parameters in an object that was a parameter before",
        _FOLDED.replace("f(x,", "f(x, args,"),
        _FOLDED.replace("f(x,", "f(x, args,").replace(
            "two(x, size)", "two(x, size)\n        limit(rate, size=size)"
        ),
        _ARGS,
        None,
    ),
    Case(
        "a parameter that upstream renames",
        _FOLDED,
        _FOLDED.replace("two(x, size)", "two(x, size)\n        limit(rate, size=size)"),
        _FOLDED.replace("rate", "ratio").replace("ratio=", "rate="),
        _FOLDED.replace("rate", "ratio")
        .replace("ratio=", "rate=")
        .replace("two(x, size)", "two(x, size)\n        limit(ratio, size=size)"),
        "renamed-operand",
    ),
    *(
        Case(
            f"a variable that the patch reads before it sets it: {text.splitlines()[0]}",
            _LENGTH,
            _LENGTH.replace("log(n)", f"log(n)\n        {text.format(n='n')}"),
            _SIZE,
            _SIZE.replace("log(size)", f"log(size)\n        {text.format(n='size')}"),
            "renamed-operand",
        )
        for text in (
            "if {n} > 3:\n            {n} = 3",
            "for {n} in a[{n}]:\n            g()",
            "g({n} := {n} + 1)",
        )
    ),
    *(
        Case(
            f"a name that the patch uses for something else: {text.splitlines()[0]}",
            _LENGTH,
            _LENGTH.replace("log(n)", text),
            _SIZE,
            None,
        )
        for text in (
            "log(n)\n        import n\n        n.run()",
            "log(n, key=lambda n: n + 1)",
            "def g(n):\n            return n\n        log(g(n))",
            "log(n, '%(n)s' % locals())",
            "match n:\n            case A(n=1):\n                log(n)",
        )
    ),
    Case(
        "a variable that the patch sets before a function with a method of its name",
        "def f(p):\n    n = size(p)\n    log(n)\n    first(p)\n    last(p)\n",
        "def f(p):\n    n = size(p)\n    log(n)\n    first(p)\n    last(p)\n    n = count(p)\n"
        "    keep(n)\n\n\ndef g(q):\n    return q.n()\n",
        "def f(p):\n    log(size(p))\n    first(p)\n    last(p)\n",
        "def f(p):\n    log(size(p))\n    first(p)\n    last(p)\n    n = count(p)\n"
        "    keep(n)\n\n\ndef g(q):\n    return q.n()\n",
    ),
    *(
        Case(f"two names that upstream exchanges, and {name}", _PAIR, ours, _EXCHANGED, None)
        for name, ours in (
            ("one more use of one", _PAIR.replace("k)\n    return", "k, self.n)\n    return")),
            ("an argument with one", _PAIR.replace("m, k", "m, k, self.n")),
            ("an argument that is one", _PAIR.replace("m, k", "m, self.n.k")),
            ("one fewer", _PAIR.replace("self.m, ", "")),
            ("a part of one", _PAIR.replace("self.n", "self.n[0]")),
        )
    ),
    Case(
        "two names that upstream exchanges beside what the patch changes",
        _PAIR,
        _PAIR.replace("m, k", "m, k + 1"),
        _EXCHANGED,
        _EXCHANGED.replace("n, k", "n, k + 1"),
        "tokens-disjoint",
    ),
    Case(
        "two names that upstream exchanges in an import, and the patch replaces",
        "from u import a, b\n\n\ndef f(x):\n    return b(x)\n",
        "from u import b, c\n\n\ndef f(x):\n    return b(x)\n",
        "from u import b, a\n\n\ndef f(x):\n    return b(x)\n",
        "from u import b, c\n\n\ndef f(x):\n    return b(x)\n",
        "tokens-disjoint",
    ),
    Case(
        "a field of a type, of which upstream takes out other fields",
        _FIELDS.format("", "", _FIELDS_OF_B),
        _FIELDS.format("    mine: Optional[List[int]] = None\n", "", _FIELDS_OF_B),
        _FIELDS.format("", "    more: Deque[Any]\n", ""),
        _FIELDS.format("    more: Deque[Any]\n", "    mine: Optional[List[int]] = None\n", ""),
        "insertion-beside-insertion",
    ),
    Case(
        "two names that the patch exchanges, and upstream uses once more",
        _PAIR,
        _EXCHANGED,
        _PAIR.replace("m, k", "m, k, more=self.m"),
        None,
    ),
    Case(
        "names that upstream moves on by one, and the patch uses",
        _PAIR,
        _PAIR.replace("m, k", "m, k, self.m"),
        _PAIR.replace("self.m", "self.o").replace("self.n", "self.m"),
        None,
    ),
    Case(
        "an attribute that upstream replaces where the patch adds it",
        _PAIR,
        _PAIR.replace("m, k", "m, self.n"),
        _PAIR.replace("self.n", "self.o"),
        None,
    ),
    Case(
        "names of an import in a function",
        "def f(x):\n    from k.utils import run_it, get_last\n    return g(x)\n",
        "def f(x):\n    from k.utils import first_it, get_last\n    return g(x)\n",
        "def f(x):\n\n    from k.utils import get_last, run_it\n\n    return g(x)\n",
        "def f(x):\n\n    from k.utils import get_last, first_it\n\n    return g(x)\n",
        "tokens-disjoint",
    ),
)
