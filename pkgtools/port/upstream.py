"""Find files and definitions that moved between two sources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from pkgtools.blob import DIRECTORY, Blob
from pkgtools.catalog import Upstream
from pkgtools.merge.model import Methods
from pkgtools.merge.result import Elsewhere
from pkgtools.merge.syntax.align import clearly_best
from pkgtools.merge.syntax.blocks import Block, is_sound, parse, similarity
from pkgtools.merge.syntax.modules import Module
from pkgtools.source import Source
from pkgtools.source.listing import package_files

_SIMILAR: Final = 0.5
"""Git's own threshold for a rename."""
_CLEAR: Final = 0.1
_RENAMED: Final = 0.8
"""The least likeness of a class with another name."""
_METHODS: Final = 2
"""The least methods of such a class."""
_DEFINED: Final = (
    re.compile(rb"\n[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)"),
    re.compile(rb"\n[ \t]+(\w+)[ \t]*:"),
    re.compile(rb"self\.(\w+)(?=[^=\n(]*=(?!=))"),
)
"""Each starts with plain bytes, which `re` finds much faster."""
_HEADER: Final = rb"def %b\b(?:.*\n)*?.*\).*:[ \t]*(?:#.*)?$"
"""The header of a function, which ends at the first line with a closing bracket and a colon."""
_IMPORTED: Final = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_FROM: Final = re.compile(
    rb"from[\s\\]+([\w.]+)[\s\\]+import\b\s*(\((?:[^)#]|#[^\n]*)*\)|(?:\\\r?\n|[^\n])*)"
)
"""An import of names from a module, and these."""


class Listing:
    """The package's Python files in a source, each with a cheap mark of its content if any."""

    def __init__(self, source: Source, upstream: Upstream, before: Listing | None = None) -> None:
        self.source = source
        self._upstream = upstream
        self.blobs: dict[str, Blob | None] = {}
        self.contents: dict[str, bytes] = {}
        self.names: dict[str, frozenset[bytes]] = {}
        if before is not None:  # most files are as they were in the source before
            marks = before.marks.items()
            kept = {path for path, mark in marks if self.marks.get(path) == mark}
            self.contents = {p: data for p, data in before.contents.items() if p in kept}
            self.names = {p: names for p, names in before.names.items() if p in kept}
            if hasattr(source, "paths"):  # git's marks have the mode, and no file is unlisted
                known = before.blobs.items()
                kept |= {p for p, blob in known if blob is None and self._is_absent(p)}
                self.blobs = {path: blob for path, blob in known if path in kept}

    @cached_property
    def marks(self) -> dict[str, Hashable]:
        """The files, each with a mark."""
        files = package_files(self.source, self._upstream)
        return {path: mark for path, mark in files.items() if path.endswith(".py")}

    def _is_absent(self, path: str) -> bool:
        is_listed = path.endswith(".py") and self._upstream.installed_path(path) is not None
        return is_listed and path not in self.marks

    def blob(self, path: str) -> Blob | None:
        """Return a file; None where there is no file."""
        if path not in self.blobs:
            blob = self.source.read(path)
            self.blobs[path] = None if blob is not None and blob.mode == DIRECTORY else blob
        return self.blobs[path]

    def read(self, path: str) -> bytes:
        """Return a file's content; nothing where there is no file."""
        if path not in self.contents:
            blob = self.blob(path)
            self.contents[path] = blob.data if blob is not None else b""
        return self.contents[path]

    def defined(self, path: str) -> frozenset[bytes]:
        """Return what a file defines: functions, classes, attributes of ``self``, fields."""
        if path not in self.names:
            data = b"\n" + self.read(path)
            self.names[path] = frozenset(n for words in _DEFINED for n in words.findall(data))
        return self.names[path]


class Movement:
    """The moves between an old and a new source, computed when something is missing."""

    def __init__(self, old: Listing, new: Listing, upstream: Upstream) -> None:
        self.listings = old, new
        self._upstream = upstream
        self._near: dict[str, list[str]] = {}
        self._near_changes: dict[str, list[str]] = {}
        self._defined: dict[str, frozenset[bytes]] = {}
        self._given: dict[bytes, bool] = {}
        self._having: dict[bytes, frozenset[str]] = {}
        self._imported: dict[tuple[Listing, str], set[tuple[str, bytes]]] = {}
        self._methods: dict[tuple[bytes, str], list[str]] = {}
        self._moved: dict[tuple[str, str, bytes], Elsewhere | None] = {}

    @cached_property
    def changed(self) -> frozenset[str]:
        """The package's files that upstream changed, added or removed."""
        old, new = (listing.marks for listing in self.listings)
        return frozenset(p for p in {*old, *new} if p not in old or old[p] != new.get(p))

    def defined(self, path: str) -> frozenset[bytes]:
        """Return what changed files near another one defined in the old package."""
        if path not in self._defined:
            near = self._changed_near(path)
            self._defined[path] = frozenset().union(*map(self.listings[0].defined, near))
        return self._defined[path]

    def file(self, path: str, content: Blob) -> str | None:
        """Return where a file went that the new source does not have at `path`."""
        old, new = self.listings
        added = sorted(set(new.marks) - set(old.marks))
        name = path.rpartition("/")[2]
        lines = Counter(content.data.splitlines())
        ratios: list[tuple[float, str]] = []
        for candidate in sorted(added, key=lambda p: p.rpartition("/")[2] != name):
            data = new.read(candidate)
            if not len(content.data) <= 4 * len(data) <= 16 * len(content.data):
                continue
            other = Counter(data.splitlines())
            total = lines.total() + other.total()
            ratio = 2 * (lines & other).total() / max(total, 1)
            ratios.append((ratio, candidate))
        return clearly_best(ratios, least=_SIMILAR, lead=_CLEAR)

    def definition(self, path: str, node: Block) -> Elsewhere | None:
        """Return a definition of `path` that is in one other file now, and there alone."""
        key = path, node.kind, node.text  # each chunk in a definition asks
        if key not in self._moved:
            self._moved[key] = self._moved_to(path, node)
        return self._moved[key]

    def _moved_to(self, path: str, node: Block) -> Elsewhere | None:
        old, new = self.listings
        name = node.name or b""
        if name.startswith(b"__"):  # every class has such
            return None
        word = re.compile(rb"\b(?:def|class)[ \t]+" + re.escape(name) + rb"\b")
        found: list[Elsewhere] = []
        for candidate, mark in new.marks.items():
            if candidate == path or old.marks.get(candidate) == mark:
                continue
            data = new.read(candidate)
            if name not in data or not word.search(data):
                continue
            if candidate in old.marks and word.search(old.read(candidate)):
                continue
            module = parse(data)
            named = (n for n in module.walk(name) if n.kind == node.kind and n.name == node.name)
            alike = [n for n in named if similarity(n, node) >= _SIMILAR]
            found += [Elsewhere(candidate, module, n) for n in alike if is_sound(module)]
        if not found and node.kind == "class":
            return self._renamed(node)
        return found[0] if len(found) == 1 else None

    def _renamed(self, node: Block) -> Elsewhere | None:
        """Return the class of an added file that is clearly most like another one."""
        old, new = self.listings
        methods = [n.name or b"" for n in node.walk() if n.kind == "function"]
        words = [(name, re.compile(rb"\bdef[ \t]+%b\b" % re.escape(name))) for name in methods]
        added = [p for p in new.marks if p not in old.marks] if len(words) >= _METHODS else []
        found: list[tuple[float, Elsewhere]] = []
        for path in added:
            data = new.read(path)
            known = sum(name in data and word.search(data) is not None for name, word in words)
            module = parse(data) if 2 * known > len(words) else None
            if module is not None and is_sound(module):
                classes = [n for n in module.walk() if n.kind == "class"]
                found += [(similarity(n, node), Elsewhere(path, module, n)) for n in classes]
        return clearly_best(found, least=_RENAMED, lead=_CLEAR)

    def lost(self, name: bytes, path: str) -> bool:
        """Whether files of the old package define an attribute, and no file of the new one does.

        Args:
            name: the attribute; with the object's name before it, nothing may read it either.
            path: the file near which a definition is looked for; everywhere it takes seconds.

        """
        new = self.listings[1]
        if b"." in name:  # an attribute with its object
            return not any(name in data for data in map(new.read, new.marks))
        if name not in self.defined(path):
            return False
        if name not in self._given:  # most are still given near the file
            near = (p for p in self.near(path) if p in new.marks)
            self._given[name] = gives(map(new.read, chain(near, new.marks)), name)
        return not self._given[name]

    def methods(self, name: bytes, path: str) -> Methods:
        """Return the files with methods of a name, if upstream changed such a method's header.

        Those of the old package are near a file, and so are the first ones of the new package.
        """
        if name not in self.defined(path):
            return [], []
        if (name, path) not in self._methods:
            old = self.listings[0]
            near = [p for p in self._changed_near(path) if name in old.defined(p)]
            had, has = ({*headers(map(files.read, near), name)} for files in self.listings)
            self._methods[name, path] = [] if had <= has else near
        near = self._methods[name, path]
        return [self.listings[0].read(p) for p in near], self._definers(name, near)

    def _definers(self, name: bytes, near: Sequence[str]) -> Iterator[bytes]:
        """Yield the files of the new package with functions of a name; to read all takes long."""
        new = self.listings[1]
        for path in dict.fromkeys((*near, *new.marks)):
            if headers([new.read(path)], name):
                yield new.read(path)

    def users(self, path: str, name: bytes) -> list[str]:
        """Return the modules in which upstream begins to import a file, or a name of it."""
        wanted, (old, new) = (self._module(path), name), self.listings
        words = {name, wanted[0].rpartition(".")[2].encode()}
        having = sorted(frozenset.intersection(*map(self._with_word, words)))
        texts = ((p, new.read(p), old.read(p)) for p in having)
        begin = (p for p, *texts in texts if not name or _begins_to_import(name, *texts))
        found = (p for p in begin if wanted in self._imports(new, p) - self._imports(old, p))
        return [self._module(p) for p in found]

    def _with_word(self, word: bytes) -> frozenset[str]:
        """Return the changed files of the new package that have a word."""
        if word not in self._having:
            new = self.listings[1]
            changed = (p for p in self.changed if p in new.marks)
            self._having[word] = frozenset(p for p in changed if word in new.read(p))
        return self._having[word]

    def callers(self, name: bytes) -> list[str]:
        """Return the modules in which upstream begins to call a method that one class has."""
        old, new = self.listings
        call = re.compile(rb"\.%b[ \t]*\(" % re.escape(name))
        having = sorted(self._with_word(name))
        counts = {p: [len(call.findall(side.read(p))) for side in (old, new)] for p in having}
        begin = [self._module(p) for p, (before, now) in counts.items() if now > before]
        definers = self._definers(name, ()) if begin else ()
        return begin if len(headers(definers, name)) == 1 else []

    def _module(self, path: str) -> str:
        stem = (self._upstream.in_wheel(path) or path).removesuffix(".py")
        return stem.removesuffix("/__init__").replace("/", ".")

    def _imports(self, listing: Listing, path: str) -> set[tuple[str, bytes]]:
        """Return the modules that a file imports, and the names that it imports from them."""
        if (listing, path) not in self._imported:
            package = (self._upstream.in_wheel(path) or path).rpartition("/")[0].replace("/", ".")
            module = Module(parse(listing.read(path)).raw[0], package, lambda _: None)
            found = {*module.imports.values()}
            modules = {(f"{dotted}.{name.decode()}", b"") for dotted, name in found if name}
            whole = {(dotted, b"") for dotted, _ in found}
            self._imported[listing, path] = found | modules | whole
        return self._imported[listing, path]

    def _changed_near(self, path: str) -> list[str]:
        if path not in self._near_changes:
            self._near_changes[path] = [p for p in self.near(path) if p in self.changed]
        return self._near_changes[path]

    def near(self, path: str) -> list[str]:
        """Return the files of the old package beside a file, and those that it imports."""
        if path not in self._near:
            old = self.listings[0]
            folder = path.rpartition("/")[0]
            named = {m.decode() for m in _IMPORTED.findall(old.read(path))}
            stems = [name.replace(".", "/") for name in named]
            names = [f"{stem}{end}" for stem in stems for end in (".py", "/__init__.py")]
            imported = [self._upstream.in_source(name) for name in names]
            beside = [p for p in old.marks if p.rpartition("/")[0] == folder]
            self._near[path] = beside + [p for p in imported if p in old.marks]
        return self._near[path]


def _begins_to_import(name: bytes, new: bytes, old: bytes) -> bool:
    """Whether a file may import a name from where it did not, by its text: a tree takes longer."""
    word = re.compile(rb"\b%b\b" % re.escape(name))
    has, had = ({m[1] for m in _FROM.finditer(text) if word.search(m[2])} for text in (new, old))
    return bool(has - had)


def headers(files: Iterable[bytes], name: bytes) -> list[bytes]:
    """Return the headers of the functions of a name, up to the colon at the end of a line."""
    header = re.compile(_HEADER % re.escape(name), re.MULTILINE)
    return [
        data[data.rfind(b"\n", 0, found.start()) + 1 : found.end()].lstrip()
        for data in files
        if name in data
        for found in header.finditer(data)
    ]


def gives(files: Iterable[bytes], name: bytes) -> bool:
    """Whether some files define an attribute, give it a value, or have a keyword of its name."""
    word = re.escape(name)
    given = re.compile(rb"\b(?:def|class)[ \t]+%b\b|\b%b[ \t]*(?::|=(?!=))" % (word, word))
    return any(name in data and given.search(data) for data in files)
