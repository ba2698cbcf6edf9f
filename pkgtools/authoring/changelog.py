"""Checks that the changelog has an entry for each series that changed since the last tag.

An entry names the target and links to what the change was made for. Sections of released
versions do not change.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.utils import canonicalize_name

from pkgtools.catalog import Catalog, Target, load_catalog
from pkgtools.errors import CheckFailedError, MalformedError, PkgtoolsError
from pkgtools.util.files import put_blob, read_text

if TYPE_CHECKING:
    from pkgtools.source.git import Repository

_HEADING: Final = re.compile(r"## +\[?([^\]\s]+)\]?.*")
_UNRELEASED: Final = re.compile(r"## +\[?Unreleased\b", re.IGNORECASE)
_DEFINITION: Final = re.compile(r" {0,3}\[([^\]]+)\]:\s*\S.*")
_UNFINISHED: Final = re.compile(r"\b(TBD|TBA|TODO|FIXME|XXX)\b", re.IGNORECASE)
_FROZEN: Final = "released sections must stay unchanged"
_BULLETS: Final = ("- ", "* ", "+ ")
_URL: Final = re.compile(r"https?://[^\s<>()\[\]\"'`]+")
_NUMBER: Final = "[1-9][0-9]*"
_HASH: Final = "(?!0+(?:[/?#]|$))[0-9a-f]{7,40}"
_REAL: Final = re.compile(
    r"https://(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)+)/(?P<project>[^/?#]+(?:/[^/?#]+)+?)(?:/-)?/"
    rf"(?:(?:issues|pull|pulls|merge_requests)/{_NUMBER}|commits?/{_HASH}"
    r"|releases/(?:tag/)?(?P<tag>[^/?#]+))/?(?:[?#].*)?"
)
_PYPI: Final = re.compile(r"https://pypi\.org/project/([^/?#]+)/([^/?#]+)/?(?:[?#].*)?")
# RFC 2606 and RFC 6761: names that lead nowhere.
_RESERVED: Final = re.compile(
    r"(?:.*\.)?(?:example\.(?:com|org|net)|example|invalid|test|localhost)"
)


@dataclass(frozen=True)
class ChangelogEntry:
    """One item of the changelog."""

    line: int
    text: str


@dataclass(frozen=True)
class Changed:
    """A target whose series changed since the last tag, and its entry."""

    target: str
    before: str | None
    """The digest at the tag; None where there was none."""
    after: str | None
    """The digest now; None where the target is gone."""
    line: int
    links: tuple[str, ...]


@dataclass(frozen=True)
class Checked:
    """The result of the check."""

    changelog: str
    since: str | None
    """The last tag; None where there is none, so that every series is new."""
    changed: tuple[Changed, ...]


@dataclass(frozen=True)
class ChangelogFaults:
    """The details of a changelog that is not ready to ship."""

    file: str
    since: str | None
    faults: list[str]


def check_changelog(catalog: Catalog, repository: Repository) -> Checked:
    """Check CHANGELOG.md, beside `catalog`, for every series that changed; name every fault."""
    path = catalog.path.with_name("CHANGELOG.md")
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise MalformedError(
            f"there is no {path}",
            remedy="write one; its entries are under ## Unreleased, name a target, and link to "
            "what each was made for",
        ) from None
    tag = repository.last_tag()
    with tempfile.TemporaryDirectory() as scratch:
        before, old = ((), "") if tag is None else _at_tag(catalog, repository, tag, scratch)
        digests = {target.name: target.series.digest for target in before}
    known = {entry.text for entry in _entries(old)}
    entries = [entry for entry in _entries(text) if entry.text not in known]
    faults = list(_history_faults(old, text, tag))
    for entry in entries:
        words = _UNFINISHED.findall(entry.text)
        faults += [f"line {entry.line}: the entry still says {word}" for word in words]
    now = {target.name for target in catalog.targets}
    gone = [target for target in before if target.name not in now]
    changed = []
    for target in [*catalog.targets, *gone]:
        after = target.series.digest if target.name in now else None
        if digests.get(target.name) == after:
            continue
        found = _told(target, digests.get(target.name), after, entries)
        if isinstance(found, str):
            faults.append(found)
        else:
            changed.append(found)
    if faults:
        raise CheckFailedError(
            f"{path} is not ready to ship:" + "".join(f"\n  {fault}" for fault in faults),
            remedy="write an entry under Unreleased that names the target and links to the "
            "issue, pull request, commit or release that it was made for",
            details=ChangelogFaults(str(path), tag, faults),
        )
    return Checked(str(path), tag, tuple(changed))


def _at_tag(
    catalog: Catalog, repository: Repository, tag: str, scratch: str
) -> tuple[Sequence[Target], str]:
    """Return the targets and the changelog of a tag; the files come to lie in `scratch`."""
    source = repository.get(tag)
    folder = catalog.path.resolve().parent.relative_to(repository.root).as_posix()
    prefix = "" if folder == "." else f"{folder}/"
    old = source.read(f"{prefix}CHANGELOG.md")
    text = old.data.decode(errors="replace") if old else ""
    name = f"{prefix}{catalog.path.name}"
    if source.read(name) is None:
        return (), text
    for each in (name, *source.paths(f"{prefix}patches")):
        blob = source.read(each)
        if blob is not None and not blob.is_directory:
            put_blob(Path(scratch, each), blob)
    try:
        before = load_catalog(Path(scratch, name))
        for target in before.targets:
            _ = target.series  # read now: the files go with the folder
    except PkgtoolsError as error:
        message = error.message.replace(f"{scratch}/", "")  # which is gone when it is read
        raise MalformedError(
            f"the catalog at {tag} cannot be read: {message}",
            remedy="tag a state whose catalog this version of pkgtools reads",
        ) from None
    return before.targets, text


def with_entry(text: str, entry: str) -> str:
    """Return a changelog with a new entry as the first item of its section Unreleased."""
    lines = text.splitlines(keepends=True)
    versions = [n for n, line in enumerate(lines) if _HEADING.fullmatch(line.rstrip("\r\n"))]
    if not any(_UNRELEASED.match(lines[n]) for n in versions[:1]):
        at = versions[0] if versions else len(lines)
        blank = ["\n"] if at and lines[at - 1].strip() else []
        lines[at:at] = [*blank, "## Unreleased\n", "\n"]
        versions = [at + len(blank)]
    at = versions[0] + 1
    while at < len(lines) and (not lines[at].strip() or lines[at].startswith("### ")):
        at += 1
    before, after = "".join(lines[:at]).rstrip(), "".join(lines[at:])
    glue = "\n" if after and not after.startswith(_BULLETS) else ""
    return f"{before}\n\n- {entry}\n{glue}{after}"


def _told(
    target: Target, before: str | None, after: str | None, entries: list[ChangelogEntry]
) -> Changed | str:
    word = re.compile(rf"(?<![\w.+-]){re.escape(target.name)}(?![\w+-]|\.\w)")
    naming = [entry for entry in entries if word.search(entry.text)]
    if not naming:
        what = "is gone" if after is None else "changed" if before else "is new"
        return f"{target.name} {what}, and no new entry names it"
    for entry in naming:
        links = tuple(url for url in _urls(entry.text) if _is_real(url, target))
        if links:
            return Changed(target.name, before, after, entry.line, links)
    line = naming[0].line
    urls = ", ".join(_urls(naming[0].text)) or "none"
    return (
        f"line {line}: the entry that names {target.name} links to no issue, pull request, commit "
        f"or release of the target (found: {urls})"
    )


def _urls(text: str) -> list[str]:
    return [url.rstrip(".,;:!?") for url in _URL.findall(text)]


def _is_real(url: str, target: Target) -> bool:
    """Whether a link leads to an issue, a change, a commit or a release.

    A release of the target's own upstream has to be the target's.
    """
    if page := _PYPI.fullmatch(url):
        own = canonicalize_name(page[1]) == canonicalize_name(target.upstream.distribution)
        return not own or page[2] == target.revision.version
    match = _REAL.fullmatch(url)
    if match is None or _RESERVED.fullmatch(match["host"]):
        return False
    upstream = (target.upstream.git or "").removesuffix(".git").rstrip("/")
    own = f"https://{match['host']}/{match['project']}" == upstream
    return match["tag"] is None or not own or match["tag"] == target.revision.tag


def _history_faults(old: str, text: str, tag: str | None) -> Iterator[str]:
    """Yield what changed in the sections that were released at `tag`."""
    now = _released(text)
    for name, section in _released(old).items():
        if now.get(name) != section:
            what = "is gone" if name not in now else "differs from what it was"
            yield f"the section of {name} {what} at {tag}: {_FROZEN}"
    lines = set(text.splitlines())
    for line in old.splitlines():
        match = _DEFINITION.fullmatch(line)
        if match and match[1].lower() != "unreleased" and line not in lines:
            yield f"the link {match[1]} differs from what it was at {tag}: {_FROZEN}"


def _released(text: str) -> dict[str, str]:
    """Return each released version's section to the byte, without the links at its end."""
    sections: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if heading := _HEADING.fullmatch(line.rstrip("\r\n")):
            name = heading[1]
        if name and name.lower() != "unreleased" and not _DEFINITION.fullmatch(line.rstrip("\r\n")):
            sections[name] = sections.get(name, "") + line
    return {name: section.rstrip("\r\n") for name, section in sections.items()}


def _entries(text: str) -> list[ChangelogEntry]:
    """Return each version's entries: a list item at the margin, and what is indented under it."""
    entries: list[ChangelogEntry] = []
    item: list[str] = []
    is_version = False
    for number, line in enumerate([*text.splitlines(), "#"], 1):
        goes_on = bool(item) and (line.startswith((" ", "\t")) or not line.strip())
        if not goes_on and item:
            entries.append(ChangelogEntry(number - len(item), "\n".join(item).rstrip()))
            item = []
        is_version = is_version or _HEADING.fullmatch(line) is not None
        if goes_on or (is_version and line.startswith(_BULLETS)):
            item.append(line)
    return entries
