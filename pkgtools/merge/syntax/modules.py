"""Resolve a name in a module through the imports of its package.

Example: ``x.load`` behind ``from . import x`` is the function ``load`` in ``x.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

import tree_sitter

from pkgtools.merge.syntax.blocks import parse
from pkgtools.merge.syntax.names import bound, definitions_in, imports_in, name_of, own_attributes
from pkgtools.merge.syntax.tokens import field_parts, field_text, raw_walk, text_of

Read = Callable[[str], bytes | None]

_DEPTH: Final = 8
"""Re-exports are followed so far, so that modules that import each other end."""
_DOTTED: Final = re.compile(rb"\.*\w+(?:\.\w+)*")
_EXPORTS: Final = re.compile(
    rb"^__all__[ \t]*(?::[^=\n]*)?\+?=[ \t]*[\[(]((?:\s|,|#[^\n]*|\"\w+\"|'\w+')*)[\])][ \t]*$",
    re.MULTILINE,
)
"""Names that ``import *`` takes."""


@dataclass(frozen=True)
class Definition:
    """A class or function, and the module in which it stands."""

    node: tree_sitter.Node
    module: Module

    @property
    def is_class(self) -> bool:
        """Whether it is a class."""
        return self.node.type == "class_definition"

    @property
    def whole(self) -> tree_sitter.Node:
        """It with its decorators."""
        outer = self.node.parent
        return outer if outer is not None and outer.type == "decorated_definition" else self.node

    @property
    def decorators(self) -> tuple[bytes, ...]:
        """Its decorators."""
        return tuple(text_of(n) for n in self.whole.named_children if n.type == "decorator")

    def is_marked(self, mark: bytes) -> bool:
        """Whether a decorator has a word in it."""
        return any(mark in decorator for decorator in self.decorators)

    def has_option(self, name: bytes) -> bool:
        """Whether a decorator of a class, or the class itself, is given ``name=True``."""
        heads = (*self.decorators, field_text(self.node, "superclasses"))
        return any(re.search(rb"\b%b\s*=\s*True\b" % name, head) for head in heads)

    @property
    def is_final(self) -> bool:
        """Whether a type checker refuses a class with this base, or a method in its place."""
        return any(re.fullmatch(rb"@(?:\w+\.)?final", text) for text in self.decorators)

    @property
    def base_names(self) -> tuple[bytes, ...]:
        """The base classes of a class, as it names them."""
        nodes = field_parts(self.node, "superclasses")
        plain = (n.children[0] if n.type == "subscript" else n for n in nodes)
        return tuple(text_of(n) for n in plain if n.type in ("identifier", "attribute"))

    def lineage(self, depth: int = _DEPTH) -> Iterator[Definition]:
        """Yield a class and its base classes, as far as they are in the package."""
        yield self
        for name in self.base_names if depth else ():
            base = self.module.resolve(name)
            if base is not None and base.is_class and base.node != self.node:
                yield from base.lineage(depth - 1)

    def methods(self) -> Iterator[Definition]:
        """Yield the methods of a class."""
        for node in definitions_in(self.node):
            if node.type == "function_definition":
                yield Definition(node, self.module)

    def own_method(self, name: bytes) -> Definition | None:
        """Return the method of a class without a look at its base classes."""
        return next((one for one in self.methods() if name_of(one.node) == name), None)

    def method(self, name: bytes) -> Definition | None:
        """Return the method of a class or of its base classes."""
        return next((m for one in self.lineage() if (m := one.own_method(name))), None)

    def inherited(self, name: bytes) -> Definition | None:
        """Return the method that a class has from its base classes."""
        bases = list(self.lineage())[1:]
        return next((found for one in bases if (found := one.own_method(name))), None)

    def attributes(self) -> frozenset[bytes]:
        """Return what a class and its base classes give their instances."""
        found: frozenset[bytes] = frozenset()
        return found.union(*(own_attributes(one.node) for one in self.lineage()))


@dataclass(frozen=True)
class Module:
    """A module of a package."""

    root: tree_sitter.Node
    package: str
    """The dotted package in which its relative imports start."""
    read: Read = field(repr=False)
    """Returns the source of a module of the package by its dotted name."""

    @staticmethod
    def named(dotted: str, read: Read) -> Module | None:
        """Return a module by its dotted name; None if the package does not have it."""
        source = read(dotted)
        if source is None:
            return None
        is_package = read(f"{dotted}.__init__") is not None
        package = dotted if is_package else dotted.rpartition(".")[0]
        return _module(source, package, read)

    def resolve(self, name: bytes, depth: int = _DEPTH) -> Definition | None:
        """Return the definition that a name or a dotted name refers to."""
        owner, _, last = name.rpartition(b".")
        if owner:
            there = Module.named(self.dotted(owner), self.read)
            return there.resolve(last, depth - 1) if there and depth else None
        if name in self._definitions:
            return Definition(self._definitions[name], self)
        if not depth:
            return None
        if name in self.imports:
            there, original = self._origin(name)
            return there.resolve(original, depth - 1) if there else None
        lazy = [self._lazy[name]] if name in self._lazy else []
        for dotted, original in (*((dotted, name) for dotted in self._stars), *lazy):
            there = Module.named(dotted, self.read)
            found = there.resolve(original, depth - 1) if there else None
            if found is not None:
                return found
        return None

    def _origin(self, name: bytes) -> tuple[Module | None, bytes]:
        """Return from where a name is imported, and what it is called there."""
        dotted, original = self.imports[name]
        return Module.named(dotted, self.read) if original else None, original

    def dotted(self, name: bytes) -> str:
        """Return the dotted name of what is imported under a name; empty if nothing is."""
        dotted, original = self.imports.get(name, ("", b""))
        return f"{dotted}.{original.decode()}" if original else dotted

    def offers(self, dotted: str, name: bytes, depth: int = _DEPTH) -> bool | None:
        """Return whether a module has a name that others can import; None if that is not sure."""
        there = Module.named(dotted, self.read)
        if there is None:
            return False
        is_module = self.read(f"{dotted}.{name.decode()}") is not None
        if is_module or name in bound(there.root) or not depth:
            return True
        lazy = there._lazy  # noqa: SLF001
        if name in lazy:
            return self.offers(*lazy[name], depth - 1)
        is_starred = there.starred(name, depth - 1)
        # A word that binds nothing may still be set in some other way.
        word = rb"\b%b\b" % re.escape(name) + (b"" if lazy else b"|__getattr__")
        is_sure = is_starred or not re.search(word, text_of(there.root))
        return is_starred if is_sure else None

    def starred(self, name: bytes, depth: int = _DEPTH) -> bool | None:
        """Return whether some ``import *`` binds a name; None if that is not sure."""
        told = {self._exports(dotted, name, depth) for dotted in self._stars}
        return True if True in told else None if None in told else False

    def _exports(self, dotted: str, name: bytes, depth: int) -> bool | None:
        text = self.read(dotted)
        if text is None:
            return None
        if b"__all__" not in text:
            return False if name.startswith(b"_") else self.offers(dotted, name, depth)
        lists = _EXPORTS.findall(text)
        is_sure = len(lists) == text.count(b"__all__")
        return any(re.search(rb"\b%b\b" % name, names) for names in lists) if is_sure else None

    def has_attribute(self, owner: bytes, name: bytes) -> bool | None:
        """Return whether the only instance of a class has an attribute; None if that is not sure.

        Example: of ``envs = Envs()`` in a module of the package.
        """
        made = self._made_by(owner)
        if made is None or made.node.child_by_field_name("superclasses") is not None:
            return None
        found = made.attributes()
        return None if found & {b"__getattr__", b"__getattribute__"} else name in found

    def _made_by(self, name: bytes, depth: int = _DEPTH) -> Definition | None:
        """Return the class of which a name of the module is an instance."""
        if name in self.imports and depth:
            there, original = self._origin(name)
            return there._made_by(original, depth - 1) if there else None  # noqa: SLF001
        calls = re.findall(rb"^%b = (.*)" % re.escape(name), text_of(self.root), re.MULTILINE)
        found = re.fullmatch(rb"(\w+)\(\)", calls[0]) if len(calls) == 1 else None
        made = self.resolve(found[1]) if found else None
        return made if made and made.is_class else None

    @cached_property
    def _definitions(self) -> dict[bytes, tree_sitter.Node]:
        return {name_of(n): n for n in definitions_in(self.root)}

    @cached_property
    def imports(self) -> dict[bytes, tuple[str, bytes]]:
        """What imports bind: to a module, and a name in it unless the module itself is meant."""
        found = {}
        for node in imports_in(self.root):
            dotted = self.absolute(node) if node.type == "import_from_statement" else None
            for name in node.children_by_field_name("name"):
                text = name_of(name) or text_of(name)
                bound = field_text(name, "alias") or text
                found[bound] = (text.decode(), b"") if dotted is None else (dotted, text)
        return found

    @cached_property
    def _stars(self) -> list[str]:
        froms = (n for n in imports_in(self.root) if n.type == "import_from_statement")
        return [
            self.absolute(n) for n in froms if any(c.type == "wildcard_import" for c in n.children)
        ]

    @cached_property
    def _lazy(self) -> dict[bytes, tuple[str, bytes]]:
        """What ``__getattr__`` (PEP 562) imports, as dictionaries of strings tell.

        Examples: ``{"Name": ".module"}``, ``{"Name": (".module", "name")}`` and
        ``{"module": ["Name"]}``.
        """
        found: dict[bytes, tuple[str, bytes]] = {}
        is_lazy = b"__getattr__" in bound(self.root)
        for pair in raw_walk([self.root]) if is_lazy else ():
            if pair.type != "pair":
                continue
            sides = [_strings(pair.children_by_field_name(side)) for side in ("key", "value")]
            modules = {text: self._named(text) for side in sides for text in side}
            for module in filter(None, map(modules.get, sides[0])):
                found |= {text: (module, text) for text in sides[1]}
            for module in filter(None, map(modules.get, sides[1])):
                originals = [text for text in sides[1] if not modules[text]]
                found |= {text: (module, [text, *originals][-1]) for text in sides[0]}
        return found

    def _named(self, text: bytes) -> str | None:
        name = text.decode() if _DOTTED.fullmatch(text) else ""
        names = (self._absolute(name), f"{self.package}.{name}") if name else ()
        return next((dotted for dotted in names if self.read(dotted) is not None), None)

    def absolute(self, node: tree_sitter.Node) -> str:
        """Return the dotted name of the module from which a statement imports."""
        return self._absolute(field_text(node, "module_name").decode())

    def _absolute(self, text: str) -> str:
        name = text.lstrip(".")
        level = len(text) - len(name)
        if not level:
            return name
        parts = self.package.split(".")
        return ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])


def _strings(nodes: list[tree_sitter.Node]) -> list[bytes]:
    return [text_of(n) for n in raw_walk(nodes) if n.type == "string_content"]


@lru_cache(maxsize=256)  # a patch uses the same few modules again and again
def _module(source: bytes, package: str, read: Read) -> Module:
    return Module(parse(source).raw[0], package, read)
