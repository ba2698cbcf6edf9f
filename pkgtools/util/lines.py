"""Lines of bytes, as git counts them."""

import re
from typing import Final

_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")


def split(data: bytes) -> list[bytes]:
    """Return lines with their ends. `bytes.splitlines` would end lines at a lone CR too."""
    return _LINE.findall(data)
