"""Find credentials in a file; their values are never shown."""

import re
from collections.abc import Iterator
from typing import Final

_ANY: Final = "a credential's value"
# What a token looks like wherever it stands.
_FORMS: Final = (
    ("a Hugging Face token", re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})")),
    ("a GitLab token", re.compile(r"\bglpat-[\w-]{20,}")),
    ("a Slack token", re.compile(r"\bxox[abprs]-[\w-]{10,}")),
    ("an API key", re.compile(r"\b(?:sk|nvapi)-[\w-]{20,}|\bAIza[\w-]{35}")),
    ("a JSON web token", re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}")),
    ("a password in a URL", re.compile(r"://(?:[^/\s:@\"']*:[^/\s@\"'$]+|[^/\s@\"'$]{16,})@")),
    ("a Weights & Biases key", re.compile(r"(?im)^(?>.*?wandb).*\b[0-9a-f]{40}\b")),
)
_NAME: Final = (
    r"(?:[\w-]*[_-])?(?:token|api[_-]?key|secret|secret[_-]?key|access[_-]?key|passw(?:or)?d"
    r"|credentials?)"
)
# Possessive (*+), because _NAME matches dashes too: a long line of them took quadratic time.
_IS_NAME: Final = re.compile(rf"-*+{_NAME}", re.IGNORECASE)
_ASSIGNED: Final = re.compile(
    rf"""(?<![\w-])(?:
        -*+{_NAME}["']?\s*=\s*              # HF_TOKEN = "...", --api-key=..., HF_TOKEN=...
        | --{_NAME}(?:["']\s*,\s*|\s+)     # "--api-key", "..." and --api-key ...
        | {_NAME}:\s*(?=\S{{16}})           # api_key: ...
    )["']*(?P<value>[^\s"',\]}}]+)""",
    re.IGNORECASE | re.VERBOSE,
)
# Not a credential: a reference to one, a path to one, a small number, a placeholder, another
# variable's name. Base64 may hold a slash, so a path is of several short parts.
_HARMLESS: Final = re.compile(
    r"\$\{?[A-Z_][A-Z0-9_]*\b.*|<.*|\{.*|[~.]{0,2}(?:/[\w.-]{1,30}){2,}|\d{1,6}"
    r"|(?i:true|false|none|null|[*x.]+)|[A-Z]+(?:_[A-Z]+)+"
)


def find_secrets(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the kind of each credential in a text, comments included."""
    for number, line in enumerate(text.splitlines(), 1):
        if kind := _kind(line):
            yield number, kind


def secret_kind(name: str, value: str) -> str | None:
    """Return what `value` is, if it is a credential by its form or by its name."""
    by_name = _IS_NAME.fullmatch(name) and value and not _HARMLESS.fullmatch(value)
    return _kind(f"{name}={value}") or (_ANY if by_name else None)


def _kind(line: str) -> str | None:
    for kind, form in _FORMS:
        if form.search(line):
            return kind
    values = (match["value"] for match in _ASSIGNED.finditer(line))
    return None if all(map(_HARMLESS.fullmatch, values)) else _ANY
