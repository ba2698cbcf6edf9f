"""Changes of both sides in one statement: what can be merged word by word, and what can not."""

from __future__ import annotations

from typing import Final

from rule_cases import Case

_IF: Final = "def f(a, b):\n    if a.x and b:\n        run(a)\n"
_WAKE: Final = "x = [e.wake.remote() for e in engines]\n"
_LISTED: Final = (
    "@mark(\n  [\n    one(1),\n    two(1),\n    three(1),\n    four(1),\n  ]\n)\n"
    "def f(a):\n    run(a)\n"
)
_METHOD: Final = (
    "class A:\n    def on_cuda(self, m):\n        return m.cuda\n\n    def f(self, m):\n"
    "        was = self.on_cuda(m)\n        m.load()\n        return was\n"
)
_MARKED: Final = "@mark([one(1), two(1), three(1)])\ndef f(a):\n    run(a)\n"
_MOVING: Final = (
    "class A:\n    def keep(self):\n        return 1\n\n    def step(self, x):\n        one(x)\n"
    "        two(x)\n        three(x)\n        return x\n\n\n"
    "class B:\n    def other(self):\n        return 2\n"
)
_MOVED: Final = (
    "class A:\n    def keep(self):\n        return 1\n\n\n"
    "class B:\n    def other(self):\n        return 2\n\n    def step(self, x):\n"
    "        one(x, 8)\n        two(x)\n        three(x, 9)\n        return x\n"
)
_METHODS: Final = """\
    class A:
        async def f(self, a):
            return {call}

        {one} run(self, a):
            return a

        {two} ours(self, a):
            return a
    """
_SPLIT: Final = 'raise ValueError(\n    "the size is "\n    f"{a.b}."\n)\n'
_TOLD: Final = 'raise ValueError(f"the size {a.b} of this is wrong")\n'

_SLOTS: Final = (
    "# Compute the target once per forward and keep the slots, "
    "because the kernel writes there.\nrun(1)\n"
)
_SPLIT_OFF: Final = (
    "from k import run\n\n\ndef f(c):\n    run(c)\n    {}\n\n\ndef h(n):\n    run(n)\n"
)
_BOUND: Final = "a, {} = c\n    return min(n, a - {})"
_CUT: Final = (
    'def f(a):\n    raise ValueError(\n        "the size of this thing here {} "\n        "{}")\n{}'
)
_UNKNOWN: Final = '    if a.b:\n        raise ValueError("b is not known there", a)\n'

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
        "tokens-disjoint",
    ),
    *(
        Case(
            f"another call, which upstream hands over no more: {sign}",
            f"async def f(a):\n    b = {sign} run(a)\n",
            f"async def f(a):\n    b = {sign} ours(a)\n",
            "async def f(a):\n    b = run(a)\n",
            None,
        )
        for sign in ("await", "yield from")
    ),
    Case(
        "a call that upstream renames and the patch awaits",
        "async def f(a):\n    run(a)\n",
        "async def f(a):\n    await run(a)\n",
        "async def f(a):\n    theirs(a)\n",
        None,
    ),
    *(
        Case(
            f"a call that the patch replaces with a method that upstream makes {kind}",
            _METHODS.format(call="self.run(a)", one="def", two="def"),
            _METHODS.format(call="self.ours(a)", one="def", two="def"),
            _METHODS.format(call="await self.run(a)", one="async def", two=two),
            made and _METHODS.format(call="await self.ours(a)", one="async def", two=two),
        )
        for kind, two, made in (("async", "async def", "x"), ("no coroutine", "def", None))
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
        _TOLD.replace("is wrong", "is too big"),
        _TOLD.replace("the size", "the whole size"),
        _TOLD.replace("is wrong", "is too big").replace("the size", "the whole size"),
        "words-in-text",
    ),
    Case(
        "words in different places of a docstring",
        'def f():\n    """Return the size of the thing and the rest."""\n',
        'def f():\n    """Return the length of the thing and the rest."""\n',
        'def f():\n    """Return the size of the thing and the others."""\n',
        'def f():\n    """Return the length of the thing and the others."""\n',
        "words-in-text",
    ),
    Case(
        "another number, which upstream uses as an index",
        "w = 0\n",
        "w = 5\n",
        "w = items[0]\n",
        None,
    ),
    Case(
        "a flag, the value of which upstream gives to another call",
        "x = f(True)\n",
        "x = f(False)\n",
        "x = f(g(strict=True))\n",
        None,
    ),
    Case(
        "words of a message that stand side by side",
        _TOLD,
        _TOLD.replace("of this", "of that"),
        _TOLD.replace("is wrong", "was wrong"),
        _TOLD.replace("this is", "that was"),
        "words-in-text",
    ),
    Case(
        "words of a comment over two lines, which one side breaks anew",
        "def f(a):\n    # The first rank alone reads the file\n    # and tells all of the others.\n"
        "    return a\n",
        "def f(a):\n    # The first rank alone reads the file\n    # and tells any of the others.\n"
        "    return a\n",
        "def f(a):\n    # The last rank alone reads\n    # the file and tells all of the others.\n"
        "    return a\n",
        "def f(a):\n    # The last rank alone reads\n    # the file and tells any of the others.\n"
        "    return a\n",
        "words-in-text",
    ),
    Case(
        "a variable that upstream renames where it is bound, and the patch where it is read",
        _SPLIT_OFF.format(_BOUND.format("old", "old")),
        _SPLIT_OFF.format(_BOUND.format("old", "new")),
        _SPLIT_OFF.format(
            "return g(c)\n\n\ndef g(c):\n    n = 1\n    " + _BOUND.format("new", "old")
        ),
        _SPLIT_OFF.format(
            "return g(c)\n\n\ndef g(c):\n    n = 1\n    " + _BOUND.format("new", "new")
        ),
        "joined-names",
    ),
    Case(
        "what a line calls, and the variable in it, which upstream renames where it is bound, too",
        _SPLIT_OFF.format(_BOUND.format("old", "old")),
        _SPLIT_OFF.format(_BOUND.format("old", "old").replace("min", "max")),
        _SPLIT_OFF.format(
            "return g(c)\n\n\ndef g(c):\n    n = 1\n    " + _BOUND.format("new", "new")
        ),
        None,
    ),
    Case(
        "words of a docstring, beside a name that the patch changes",
        'def f(a):\n    """Return the size of the thing and the rest."""\n    run(a)\n',
        'def g(a):\n    """Return the length of the thing and the rest."""\n    run(a)\n',
        'def f(a):\n    """Return the size of the thing and the others."""\n    run(a)\n',
        'def g(a):\n    """Return the length of the thing and the others."""\n    run(a)\n',
        "words-in-text",
    ),
    Case(
        "words of a short comment of which few stay",
        "# Run collective with broken rank\nrun(1)\n",
        "# Round 2: run collective with dead rank\nrun(1)\n",
        "# Run collective without broken rank\nrun(1)\n",
        None,
    ),
    *(
        Case(
            f"words of a docstring, beside a string that no code looks for: {string}",
            f'x = {string}\n\n\ndef f():\n    """Take the old --size of that thing."""\n',
            f'x = {string}\n\n\ndef f():\n    """Take the old --size of that part."""\n',
            f'x = {string}\n\n\ndef f():\n    """Take the old of that thing."""\n',
            f'x = {string}\n\n\ndef f():\n    """Take the old of that part."""\n',
            "words-in-text",
        )
        for string in ('" "', 'y == "--size"')
    ),
    Case(
        "words of a comment of which few stay, one between the changes of the two sides",
        _SLOTS,
        _SLOTS.replace("Compute the target once per forward and keep the", "Keep the"),
        _SLOTS.replace("because the kernel writes there", "as each store reads them"),
        "# Keep the slots, as each store reads them.\nrun(1)\n",
        "words-in-text",
    ),
    Case(
        "words of a comment of which few stay, with nothing that says something between them",
        "# Read all of the old files of that rank before the run\nrun(1)\n",
        "# Take some of the old files of that rank before the run\nrun(1)\n".replace(
            "old files of that rank before the run", "slots"
        ),
        "# Read all of the new pages here\nrun(1)\n",
        None,
    ),
    Case(
        "brackets around a placeholder that the patch replaces",
        'raise ValueError(f"size {size} should be less than all of the ranks here")\n',
        'raise ValueError(f"size * world = {total} should be less than all of the ranks here")\n',
        'raise ValueError(f"the number (of size {size}) should be less than all of the ranks")\n',
        'raise ValueError(f"the number (of size * world = {total}) should be less than all of the '
        'ranks")\n',
        "words-in-text",
    ),
    Case(
        "words of a docstring that stand side by side, of which each side keeps most",
        'def f(a):\n    """Verify the old decode values match all of the scored values."""\n',
        'def g(a):\n    """Verify the new decode values match all of the scored values."""\n',
        'def f(a):\n    """Verify the old pages must match all of the scored ones."""\n',
        'def g(a):\n    """Verify the new pages must match all of the scored ones."""\n',
        "words-in-text",
    ),
    Case(
        "words of a comment that stand side by side, of which one side keeps few",
        "# Run the collective with the broken rank\nrun(1)\n",
        "# Start one round of it with the dead rank\nrun(1)\n",
        "# Run the collective for the broken rank\nrun(1)\n",
        None,
    ),
    Case(
        "marks that both set in one place of a comment",
        "# Run the collective of all ranks here\nrun(1)\n",
        "# Run the collective of all ranks here!\nrun(1)\n",
        "# Run the collective of all ranks here.\nrun(1)\n",
        None,
    ),
    Case(
        "words of a message that upstream cuts elsewhere, and another message of the patch",
        _CUT.format("is wrong with the window", "of a", ""),
        _CUT.format("is wrong with the window", "of a, take another", _UNKNOWN),
        _CUT.format("with", "the window of a", ""),
        _CUT.format("with", "the window of a, take another", _UNKNOWN),
        "words-in-text",
    ),
    Case(
        "a text that upstream cuts, of which the patch sets values",
        'raise ValueError("the size of {a} is wrong")\n',
        'raise ValueError("the size of {a}" f" is {a} wrong")\n',
        'raise ValueError("the whole size of {a} is wrong")\n',
        None,
    ),
    Case(
        "words that both add to a docstring",
        'def f():\n    """Take `a`, `b` or `c` in any order."""\n',
        'def f():\n    """Take `a`, `d`, `b` or `c` in any order."""\n',
        'def f():\n    """Take `a`, `b`, `d` or `c` in any order."""\n',
        None,
    ),
    Case(
        "words in sentences that upstream makes two of",
        'def f():\n    """The unknown jump as one symbol."""\n',
        'def f():\n    """The unknown jump times two as one symbol."""\n',
        'def f():\n    """For a: the unknown jump as one symbol. For b: the unknown move as one '
        'symbol."""\n',
        None,
    ),
    Case(
        "words that both add in one place of a comment",
        "# Run the collective\nrun(1)\n",
        "# Run the whole collective\nrun(1)\n",
        "# Run the new collective\nrun(1)\n",
        None,
    ),
    Case(
        "words of a comment, beside code that upstream changes",
        "def f(a):\n    # The first rank alone reads the file.\n    return read(a)\n",
        "def f(a):\n    # The first rank alone reads the whole file.\n    return read(a)\n",
        "def f(a):\n    # The last rank alone reads the file.\n    return read(a, whole=False)\n",
        None,
    ),
    *(
        Case(
            f"words of a string that is no message: {code.strip()}",
            code.format("old", "that"),
            code.format("new", "that"),
            code.format("old", "this"),
            None,
        )
        for code in (
            'run("take the {} one from {} place")\n',
            'logger.info(run("take the {} one from {} place"))\n',
            'def f():\n    return "take the {} one from {} place"\n',
            'raise run["take the {} one from {} place"]\n',
            'assert a == "take the {} one from {} place"\n',
            'assert "take the {} one from {} place" in a, a\n',
            'raise Wrong(1 if a == "take the {} one from {} place" else 2)\n',
            'raise Wrong(query="take the {} one from {} place")\n',
            'logger.info(a, extra={{"take the {} one from {} place": a}})\n',
        )
    ),
    Case(
        "a keyword that upstream renames in one element of a mark, and its value",
        _MARKED.replace("two(1)", "two(old=1)"),
        _MARKED.replace("two(1)", "two(old=2)"),
        _MARKED.replace("two(1)", "two(new=1)").replace("one(1), ", "").replace("@mark", "@skip"),
        None,
    ),
    Case(
        "a keyword that upstream renames in an element of a list that it changes, and its value",
        _LISTED.replace("two(1)", "two(old=1)"),
        _LISTED.replace("two(1)", "two(old=2)"),
        _LISTED.replace("two(1)", "two(new=1)").replace("    four(1),\n", ""),
        _LISTED.replace("two(1)", "two(new=2)").replace("    four(1),\n", ""),
        "tokens-disjoint",
    ),
    Case(
        "words of the help of an option",
        'add("--a", help="take the old one from that place")\n',
        'add("--a", help="take the new one from that place")\n',
        'add("--a", help="take the old one from this place")\n',
        'add("--a", help="take the new one from this place")\n',
        "words-in-text",
    ),
    Case(
        "words of another argument of an option",
        'add("--a", default="take the old one from that place")\n',
        'add("--a", default="take the new one from that place")\n',
        'add("--a", default="take the old one from this place")\n',
        None,
    ),
    Case(
        "words of a message to a log",
        'logger.info("take the old one from that place %s", a)\n',
        'logger.info("take the new one from that place %s", a)\n',
        'logger.info("take the old one from this place %s", a)\n',
        'logger.info("take the new one from this place %s", a)\n',
        "words-in-text",
    ),
    Case(
        "a placeholder beside words of a message",
        'raise ValueError("the size %s of this is wrong" % a)\n',
        'raise ValueError("the size %d of this is wrong" % a)\n',
        'raise ValueError("the length %s of this is wrong" % a)\n',
        None,
    ),
    *(
        Case(
            f"words that are more than prose: {text.strip()}",
            text.format("old", "that"),
            text.format("new", "that"),
            text.format("old", "this"),
            None,
        )
        for text in (
            "run(1)  # type: Dict[{}, Sequence[int], {}, str]\n",
            "run(1)  # noqa: E501, {}, F401, {}, W291\n",
            "#!/usr/bin/env -S python -u -{} -b -{} -c\n",
            "# see the pages of example.org/{}/{}/index\n",
            'def f():\n    """Run it.\n\n    >>> f()\n    the {} one of {} place\n    """\n',
        )
    ),
    Case(
        "a word of a docstring, which upstream writes once more",
        'def f():\n    """Refresh the list of users, and append the new backup."""\n',
        'def f():\n    """Refresh the list of users, and append the new actions."""\n',
        'def f():\n    """Refresh each backup of users, and append the new backup."""\n',
        'def f():\n    """Refresh each backup of users, and append the new actions."""\n',
        "words-in-text",
    ),
    Case(
        "a number in a comment, and the unit behind it",
        "# Wait 10 seconds for the lock to open\nrun(1)\n",
        "# Wait 20 seconds for the lock to open\nrun(1)\n",
        "# Wait 10 minutes for the lock to open\nrun(1)\n",
        None,
    ),
    Case(
        "a word of a comment, of which upstream says the opposite",
        "# The cache is used by the worker of it\nrun(1)\n",
        "# The cache is used by the server of it\nrun(1)\n",
        "# The cache is not used by the worker of it\nrun(1)\n",
        None,
    ),
    *(
        Case(
            f"values of a text, in which upstream changes places: {text.strip()}",
            text.format("sent %s, got %s of it", "a, b"),
            text.format("sent %s, got %s of it", "b, a"),
            text.format("sent %d, got %s of it", "a, b"),
            None,
        )
        for text in (
            'logger.info("{}", {})\n',
            'print("{}" % ({}))\n',
            'raise ValueError(\n    "{}" % ({})\n)\n',
        )
    ),
    Case(
        "values of a text that upstream formats otherwise",
        'print("sent {}, got {} of it".format(a, b))\n',
        'print("sent {}, got {} of it".format(b, a))\n',
        'print("sent {1}, got {0} of it".format(a, b))\n',
        None,
    ),
    *(
        Case(f"two ways to correct one mistake: {base.strip()}", base, ours, theirs, None)
        for base, ours, theirs in (
            ("x = a if c else b\n", "x = b if c else a\n", "x = a if not c else b\n"),
            ("x = a if c > d else b\n", "x = a if c <= d else b\n", "x = b if c > d else a\n"),
            ("a, b = x, y\n", "b, a = x, y\n", "a, b = y, x\n"),
            ("run(lambda a, b: a - b)\n", "run(lambda b, a: a - b)\n", "run(lambda a, b: b - a)\n"),
            (
                "for a, b in zip(x, y):\n    run(a, b)\n",
                "for b, a in zip(x, y):\n    run(a, b)\n",
                "for a, b in zip(y, x):\n    run(a, b)\n",
            ),
            (
                "if a > b:\n    x = 1\nelse:\n    x = 2\n",
                "if a > b:\n    x = 2\nelse:\n    x = 1\n",
                "if a <= b:\n    x = 1\nelse:\n    x = 2\n",
            ),
        )
    ),
    Case(
        "the order of values on another line than the words for them",
        'print(\n    "sent %s, got %s of it"\n    % (a, b)\n)\n',
        'print(\n    "sent %s, got %s of it"\n    % (b, a)\n)\n',
        'print(\n    "got %s, sent %s of it"\n    % (a, b)\n)\n',
        None,
    ),
    *(
        Case(
            f"a name from a module that upstream moves: {text.splitlines()[-2].strip()}",
            text.format("old", "a"),
            text.format("old", "a, b"),
            text.format("new", "a"),
            None,
        )
        for text in (
            "def f():\n    from kit.{} import {}\n    return a\n",
            "def f():\n    from kit.{} import (\n        {},\n    )\n    return a\n",
        )
    ),
    Case(
        "the order of values, and that of the words for them",
        'print("sent %s, got %s of it" % (a, b))\n',
        'print("sent %s, got %s of it" % (b, a))\n',
        'print("got %s, sent %s of it" % (a, b))\n',
        None,
    ),
    Case(
        "a value of a text in which upstream changes a word",
        'print("sent %s, got %s of it" % (a, b))\n',
        'print("sent %s, got %s of it" % (a, c))\n',
        'print("sent %s, got %s of that" % (a, b))\n',
        'print("sent %s, got %s of that" % (a, c))\n',
        "tokens-disjoint",
    ),
    Case(
        "the name of a placeholder, of which the patch takes the value away",
        'raise ValueError("the {a} of this is wrong".format(a=a, b=b))\n',
        'raise ValueError("the {a} of this is bad".format(a=a))\n',
        'raise ValueError("the {b} of this is wrong".format(a=a, b=b))\n',
        None,
    ),
    Case(
        "words of a message for which the patch looks",
        f"def g(e):\n    return e\n\n\ndef f(a):\n    {_TOLD}",
        f"def g(e):\n    return 'is bad' in str(e)\n\n\ndef f(a):\n"
        f"    {_TOLD.replace('is wrong', 'is bad')}",
        f"def g(e):\n    return e\n\n\ndef f(a):\n    {_TOLD.replace(' is ', ' was ')}",
        None,
    ),
    Case(
        "words of a docstring that the patch reads",
        'def f():\n    """Take the old one from that place."""\n    return f.__doc__\n',
        'def f():\n    """Take the new one from that place."""\n'
        '    return "one from that" in f.__doc__\n',
        'def f():\n    """Take the old one from this place."""\n    return f.__doc__\n',
        None,
    ),
    Case(
        "an example in a docstring",
        'def f():\n    """Show all of it.\n\n    >>> from a import I\n    """\n',
        'def f():\n    """Show all of it.\n\n    >>> from a import I, ours\n    """\n',
        'def f():\n    """Show all of it.\n\n    >>> from a import theirs, I\n    """\n',
        None,
    ),
    Case(
        "a variable that the patch renames, and the method of its value that upstream renames",
        _METHOD,
        _METHOD.replace("was", "before"),
        _METHOD.replace("on_cuda", "on_device"),
        _METHOD.replace("was", "before").replace("on_cuda", "on_device"),
        "tokens-disjoint",
    ),
    Case(
        "a variable that the patch renames, with one more call of the method",
        _METHOD,
        _METHOD.replace("was", "before").replace("load()", "load(self.on_cuda(m))"),
        _METHOD.replace("on_cuda", "on_device"),
        None,
    ),
    Case(
        "a variable that the patch renames and upstream uses once more",
        _METHOD,
        _METHOD.replace("was", "before"),
        _METHOD.replace("on_cuda", "on_device").replace("load()", "load(was)"),
        None,
    ),
    Case(
        "two strings that one side joins, and of which the other one makes the first an f-string",
        _SPLIT,
        _SPLIT.replace('is "\n    f"', "is "),
        _SPLIT.replace('"the', 'f"the'),
        _SPLIT.replace('is "\n    f"', "is ").replace('"the', 'f"the'),
        "same-value",
    ),
    Case(
        "two strings that one side joins, and of which the other one changes the first, too",
        _SPLIT,
        _SPLIT.replace('is "\n    f"', "is "),
        _SPLIT.replace('"the size', 'f"the {a}'),
        None,
    ),
    Case(
        "two parameters of one decorator",
        _MARKED,
        _MARKED.replace("one(1)", "one(2)"),
        _MARKED.replace("three(1)", "three(2)"),
        _MARKED.replace("one(1)", "one(2)").replace("three(1)", "three(2)"),
        "tokens-disjoint",
    ),
    Case(
        "a parameter of one of two decorators, where upstream removes one and adds another",
        '@option("--a", default=1)\n@option("--b", default=1)\ndef f(): ...\n',
        '@option("--a", default=2)\n@option("--b", default=1)\ndef f(): ...\n',
        '@option("--b", default=1)\n@option("--c", default=1)\ndef f(): ...\n',
        None,
    ),
    Case(
        "a parameter of a decorator in the place of which upstream has another decorator",
        _MARKED,
        _MARKED.replace("one(1)", "one(2)"),
        _MARKED.replace("@mark", "@skip"),
        None,
    ),
    Case(
        "an argument of a call of which upstream imports another function",
        "from m import a, old\n\nx = a(old(q))\n",
        "from m import a, old\n\nx = a(old(q, ours))\n",
        "from m import a, new\n\nx = a(new(q))\n",
        "from m import a, new\n\nx = a(new(q, ours))\n",
        "tokens-disjoint",
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
    Case(
        "two operands of a condition",
        "def f(a, b):\n    if a == 1 or b:\n        run(a)\n",
        "def f(a, b):\n    if a == 1 or ours(b):\n        run(a)\n",
        "def f(a, b):\n    if a == theirs or b:\n        run(a)\n",
        "def f(a, b):\n    if a == theirs or ours(b):\n        run(a)\n",
        "tokens-disjoint",
    ),
    Case(
        "both put one operand of a condition into a call",
        "def f(a, b):\n    if a == 1 or b:\n        run(a)\n",
        "def f(a, b):\n    if a == 1 or ours(b):\n        run(a)\n",
        "def f(a, b):\n    if a == 1 or theirs(b):\n        run(a)\n",
        None,
    ),
    Case(
        "an argument of a statement that upstream makes an operand",
        "def f(a, b):\n    return run(a, b)\n",
        "def f(a, b):\n    return run(a, ours)\n",
        "def f(a, b):\n    return theirs or run(a, b)\n",
        "def f(a, b):\n    return theirs or run(a, ours)\n",
        "tokens-disjoint",
    ),
    Case(
        "the operator and an operand",
        "def f(a, b):\n    return a.one and b\n",
        "def f(a, b):\n    return a.one or b\n",
        "def f(a, b):\n    return a.one and theirs\n",
        None,
    ),
    Case(
        "the object and the attribute of it",
        "def f(a, b):\n    return a.one\n",
        "def f(a, b):\n    return b.one\n",
        "def f(a, b):\n    return a.theirs\n",
        None,
    ),
    Case(
        "arguments that upstream gives to another call",
        "def f(a):\n    return run(a)\n",
        "def f(a):\n    return run(a + ours)\n",
        "def f(a):\n    return run(theirs(a))\n",
        None,
    ),
    Case(
        "a value that both give the same name, of which one is another",
        "def f(a):\n    run(a.one, more=1)\n    return a\n",
        "def f(a):\n    x = run(a.ours, more=1)\n    return a\n",
        "def f(a):\n    x = run(a.one, more=1)\n    return x\n",
        None,
    ),
    Case(
        "a call that both put into another one, of which one is changed",
        "x = run(a.one, more=1)\n",
        "x = ours(run(a.two, more=1))\n",
        "x = theirs(run(a.one, more=1))\n",
        None,
    ),
    Case(
        "branches that upstream swaps",
        "if a.b:\n    x(1)\nelse:\n    y(1)\n",
        "if a.b:\n    x(2)\nelse:\n    y(1)\n",
        "if not a.b:\n    y(1)\nelse:\n    x(1)\n",
        None,
    ),
    Case(
        "keywords of which upstream swaps the values",
        "h(a=f(1), b=g(1))\n",
        "h(a=f(2), b=g(1))\n",
        "h(a=g(1), b=f(1))\n",
        None,
    ),
    Case(
        "values that upstream swaps with their condition",
        "x = f(1) if c else g(1)\n",
        "x = f(2) if c else g(1)\n",
        "x = g(1) if not c else f(1)\n",
        None,
    ),
    Case(
        "a loop around a statement in which upstream begins to use the loop's variable",
        "def f(a, i, c):\n    run(a, 1)\n    end()\n",
        "def f(a, i, c):\n    for i in c:\n        run(a, 1)\n    end()\n",
        "def f(a, i, c):\n    run(a, i)\n    end()\n",
        None,
    ),
    Case(
        "a variable of a loop that upstream puts around the patch's change",
        "def f(a, i, c):\n    run(a, 1)\n    end()\n",
        "def f(a, i, c):\n    run(a, i)\n    end()\n",
        "def f(a, i, c):\n    for i in c:\n        run(a, 1)\n    end()\n",
        None,
    ),
    Case(
        "a comprehension around a call that begins to use its variable",
        "def f(a, i, c):\n    x = run(a, 1)\n",
        "def f(a, i, c):\n    x = [run(a, 1) for i in c]\n",
        "def f(a, i, c):\n    x = run(a, i)\n",
        None,
    ),
    Case(
        "a variable that upstream renames, and the patch reads before it sets it",
        "def f(a):\n    y = g(a)\n    h(a)\n    return y\n",
        "def f(a):\n    y = g(a)\n    h(a)\n    k(y)\n    y = 2\n    return y\n",
        "def f(a):\n    z = g(a)\n    h(a)\n    return z\n",
        "def f(a):\n    z = g(a)\n    h(a)\n    k(z)\n    z = 2\n    return z\n",
        "renamed-operand",
    ),
    Case(
        "statements that upstream swaps when it turns a condition around",
        "def f():\n    if a:\n        g(1)\n        return\n    h(1)\n",
        "def f():\n    if a:\n        g(2)\n        return\n    h(1)\n",
        "def f():\n    if not a:\n        h(1)\n        return\n    g(1)\n",
        None,
    ),
    Case(
        "bodies of cases that upstream swaps",
        "match x:\n    case 1:\n        g(1)\n    case 2:\n        h(1)\n",
        "match x:\n    case 1:\n        g(2)\n    case 2:\n        h(1)\n",
        "match x:\n    case 1:\n        h(1)\n    case 2:\n        g(1)\n",
        None,
    ),
    Case(
        "values of two variables that upstream swaps",
        "x = f(1)\ny = g(1)\n",
        "x = f(2)\ny = g(1)\n",
        "x = g(1)\ny = f(1)\n",
        None,
    ),
    Case(
        "keywords that take from one iterator",
        "f(\n    a=1,\n)\n",
        "f(\n    a=1,\n    b=next(it),\n)\n",
        "f(\n    a=1,\n    c=next(it),\n)\n",
        None,
    ),
    Case(
        "a variable that the patch renames and a new line of upstream's sets",
        "def f(a):\n    x = g(a)\n    h(a)\n    k(a)\n    return x\n",
        "def f(a):\n    y = g(a)\n    h(a)\n    k(a)\n    return y\n",
        "def f(a):\n    x = g(a)\n    h(a)\n    if a:\n        x = 2\n    k(a)\n    return x\n",
        None,
    ),
    Case(
        "a variable that upstream renames and a new line of the patch sets",
        "def f(a):\n    x = g(a)\n    h(a)\n    k(a)\n    return x\n",
        "def f(a):\n    x = g(a)\n    h(a)\n    if a:\n        x = 2\n    k(a)\n    return x\n",
        "def f(a):\n    y = g(a)\n    h(a)\n    k(a)\n    return y\n",
        "def f(a):\n    y = g(a)\n    h(a)\n    if a:\n        y = 2\n    k(a)\n    return y\n",
        "renamed-operand",
    ),
    Case(
        "two conditions of one call, each negated by one side",
        "x = f(a == b, c)\n",
        "x = f(a != b, c)\n",
        "x = f(a == b, not c)\n",
        "x = f(a != b, not c)\n",
        "tokens-disjoint",
    ),
    Case(
        "an `and` that the patch replaces, and upstream adds another one",
        "x = f(a and b, c)\n",
        "x = f(a or b, c)\n",
        "x = f(a and b, c and d)\n",
        "x = f(a or b, c and d)\n",
        "tokens-disjoint",
    ),
    Case(
        "a condition that the patch turns around and upstream adds a line to",
        "if a.x and b:\n    run(a)\n",
        "if b and a.x:\n    run(a)\n",
        "if a.x and b:\n    start(a)\n    run(a)\n",
        "if b and a.x:\n    start(a)\n    run(a)\n",
        "neighbour-changed",
    ),
    Case(
        "an integer that upstream makes a fraction and the patch uses",
        "def f():\n    n = 3\n    return n\n",
        "def f():\n    n = 3\n    log(n)\n    return n\n",
        "def f():\n    n = 3.5\n    return n\n",
        "def f():\n    n = 3.5\n    log(n)\n    return n\n",
        "neighbour-changed",
    ),
    Case(
        "a value beside the only one of which upstream makes another kind",
        "x = {\n    'a': 'b',\n}\n",
        "x = {\n    'a': 'b',\n    'c': 'd',\n}\n",
        "x = {\n    'a': 1,\n}\n",
        "x = {\n    'a': 1,\n    'c': 'd',\n}\n",
        "neighbour-changed",
    ),
    Case(
        "values of which upstream makes another kind, and the patch adds one",
        "x = {\n    'a': 'b',\n    'e': 'f',\n}\n",
        "x = {\n    'a': 'b',\n    'e': 'f',\n    'c': 'd',\n}\n",
        "x = {\n    'a': 1,\n    'e': 2,\n}\n",
        None,
    ),
    Case(
        "a name in a loop that upstream's loop does not set, and a line above does",
        "def f(xs):\n    i = 0\n    for i in xs:\n        run(i)\n        a()\n",
        "def f(xs):\n    i = 0\n    for i in xs:\n        run(i)\n        log(i)\n        a()\n",
        "def f(xs):\n    i = 0\n    for j in xs:\n        run(j)\n        a()\n",
        None,
    ),
    Case(
        "a method that upstream moves into another class, and changes",
        _MOVING,
        _MOVING.replace("two(x)", "two(x, 7)"),
        _MOVED,
        _MOVED.replace("two(x)", "two(x, 7)"),
        "moved-definition",
    ),
)
