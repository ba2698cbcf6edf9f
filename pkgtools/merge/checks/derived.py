"""Options that upstream makes of the fields of a class.

Example: the patch adds the option ``--depth`` and the field ``depth``. Upstream now adds an option
for each field, and with two of one name the program does not start.
"""

import re
from typing import Final

from pkgtools.merge.checks.landing import LandedLines
from pkgtools.merge.syntax.tokens import text_of

_OPTION: Final = re.compile(rb"\badd_argument\(\s*(?:['\"]-\w['\"],\s*)?['\"]--([\w-]+)['\"]")


def derived_option(use: LandedLines) -> str | None:
    """Return an option of ours that theirs makes of a field by itself.

    That is: theirs removed options of a file that are fields of a class which the file imports,
    and the class has a field of the new option's name, too.
    """
    added = _options(use.text)
    gone = _options(text_of(use.base.root)) if added else set()
    gone -= _options(text_of(use.theirs.root))
    for name in sorted(use.theirs.imports) if gone else ():
        found = use.made.resolve(name)
        fields = found.attributes() if found is not None and found.is_class else frozenset()
        if gone & fields and added & fields:
            one, other = (min(names & fields).decode() for names in (added, gone))
            return f"upstream makes `{other}` of a field of `{name.decode()}`, which has `{one}`"
    return None


def _options(text: bytes) -> set[bytes]:
    """Return the attributes in which a parser keeps its options."""
    if b"add_argument" not in text:  # found much faster than the pattern
        return set()
    return {name.replace(b"-", b"_") for name in _OPTION.findall(text)}
