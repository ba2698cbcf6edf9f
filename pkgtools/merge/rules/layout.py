"""Write an edit as text: indentation, blank lines, commas."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import tree_sitter

from pkgtools.merge.result import Edit, Unsure
from pkgtools.merge.syntax.blocks import Block, parse, starts_line
from pkgtools.merge.syntax.tokens import ancestors, raw_walk, tokens_of

_ALIKE: Final = 0.6
"""The least share of common tokens of an expression and what it is changed to."""
WORTH: Final = 3
"""The least tokens of an expression that can be recognised by its text."""


@dataclass(frozen=True)
class Gap:
    """The nodes around an insertion in ours, and around the same place in base."""

    ours_before: Block | None
    ours_behind: Block | None
    base_before: Block | None
    base_behind: Block | None


def apply_edits(source: bytes, edits: Sequence[Edit]) -> bytes | Unsure:
    """Return `source` with the edits made, unless two of them want the same bytes."""
    out: list[bytes] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < at:
            return Unsure("two parts of the change meet in one place")
        out += [source[at : edit.start], edit.text]
        at = edit.end
    return b"".join([*out, source[at:]])


def edit_of(source: bytes, start: int, end: int, *texts: bytes | Unsure) -> Edit | Unsure:
    """Return the edit that writes some texts one behind the other, unless one of them is unsure."""
    doubt = next((text for text in texts if isinstance(text, Unsure)), None)
    return doubt or Edit(source, start, end, b"".join(t for t in texts if isinstance(t, bytes)))


def insert_statements(
    siblings: Sequence[Block], at: int, added: Sequence[Block], gap: Gap, *, before: bool = False
) -> Edit | Unsure:
    """Return the edit that puts statements before ``siblings[at]``.

    The blank lines are those that the patch has around them: on the side where it
    changed nothing, theirs stay.
    """
    if not siblings or not all(starts_line(n.source, n.start) for n in siblings):
        return Unsure("a line holds several statements")
    source = siblings[0].source
    block = lines_of(added, indent_at(source, siblings[0].start))
    above = _blanks(gap.ours_before, added[0])
    below = _blanks(added[-1], gap.ours_behind)
    between = _blanks(gap.base_before, gap.base_behind)
    if at == 0 or (at < len(siblings) and (before or (above == between != below))):
        start = line_start(source, siblings[at].start)
        return edit_of(source, start, start, block, b"\n" * (below or 0))
    above = above if above is not None else (below or 0)
    end = line_end(source, siblings[at - 1].end)
    lead = b"" if source[end - 1 : end] == b"\n" else b"\n"
    lead += b"\n" * above
    found = _blanks(siblings[at - 1], siblings[at]) if at < len(siblings) else None
    if found is not None and found == between != below and below is not None:
        start = line_start(source, siblings[at].start)
        return edit_of(source, end, start, lead, block, b"\n" * below)
    return edit_of(source, end, end, lead, block)


def delete_statement(siblings: Sequence[Block], at: int) -> Edit:
    """Return the edit that takes a statement out, with blank lines that then are too many."""
    node = siblings[at]
    start, end = line_start(node.source, node.start), line_end(node.source, node.end)
    above = _blanks(siblings[at - 1], node) if at else None
    below = _blanks(node, siblings[at + 1]) if at + 1 < len(siblings) else None
    if below:
        for _ in range(below if above is None else min(above, below)):
            end = line_end(node.source, end)
    elif below is None and above:
        for _ in range(above):
            start = line_start(node.source, start - 1)
    return Edit(node.source, start, end, b"")


def replace_statements(run: Sequence[Block], added: Sequence[Block]) -> Edit | Unsure:
    """Return the edit that puts statements in the place of others."""
    source = run[0].source
    start, end = line_start(source, run[0].start), line_end(source, run[-1].end)
    return edit_of(source, start, end, lines_of(added, indent_at(source, run[0].start)))


def add_part(theirs: Block, part: Block, role: str) -> Edit | Unsure:
    """Return the edit that gives a statement decorators or branches."""
    source = theirs.source
    text = lines_of([part], indent_at(source, theirs.start))
    if role == "decorators":
        at = line_start(source, theirs.start)
        return edit_of(source, at, at, text)
    at = line_end(source, theirs.end)
    return edit_of(source, at, at, b"" if source[at - 1 : at] == b"\n" else b"\n", text)


def lines_of(nodes: Sequence[Block], indent: bytes) -> bytes | Unsure:
    """Return the whole lines of statements, indented for another place."""
    source = nodes[0].source
    start, end = nodes[0].start, nodes[-1].end
    rest = source[end : line_end(source, end)]
    if not starts_line(source, start) or (rest.strip() and not rest.lstrip().startswith(b"#")):
        return Unsure("a line holds several statements")
    text = source[line_start(source, start) : line_end(source, end)]
    text += b"" if text.endswith(b"\n") else b"\n"
    return reindent(text, indent_at(source, start), indent, frozen_lines(nodes))


def replace_block(theirs: Block, ours: Block) -> list[Edit | Unsure]:
    """Return the edits that put ours in the place of theirs."""
    sources = ours.source, theirs.source
    if theirs.kind == ours.kind == "import_names":  # with the parentheses that ours has
        return [replace_span(sources, _with_brackets(ours), _with_brackets(theirs))]
    spans = (ours.start, ours.end), (theirs.start, theirs.end)
    edit = replace_span(sources, *spans, frozen_lines([ours]))
    return [edit] if isinstance(edit, Unsure) or edit.text != theirs.text else []


def _with_brackets(names: Block) -> tuple[int, int]:
    """Return where the names of an import are, with the parentheses around them."""
    brackets = [c for c in names.raw[0].children if c.type in ("(", ")")]
    spans = [*((c.start_byte, c.end_byte) for c in brackets), (names.start, names.end)]
    return min(spans)[0], max(spans)[1]


def replace_span(
    sources: tuple[bytes, bytes],
    span: tuple[int, int],
    into: tuple[int, int],
    frozen: frozenset[int] = frozenset(),
) -> Edit | Unsure:
    """Return the edit that puts a span of ours in the place of one of theirs, indented as that."""
    ours, theirs = sources
    old, new = indent_at(ours, span[0]), indent_at(theirs, into[0])
    return edit_of(theirs, *into, reindent(ours[slice(*span)], old, new, frozen, first=False))


def is_in_its_like(node: tree_sitter.Node) -> bool:
    """Whether an expression is in one of its kind that starts as it does."""
    start = [tokens_of(n) for n in node.children[:1]]
    outer = (n for n in ancestors(node) if n.type == node.type and start)
    return any([tokens_of(n.children[0])] == start for n in outer)


def inner_change(base: Block, ours: Block, theirs: Block) -> Edit | Unsure | None:
    """Return the edit of the one expression inside that the patch changes, if theirs has it.

    It must stand once in base and once in theirs, and be long enough that this
    means something.
    """
    if len(base.raw) != len(ours.raw) or len(base.raw) != 1:
        return None
    path = [(base.raw[0], ours.raw[0])]
    while True:
        one, other = path[-1]
        pairs = list(zip(one.children, other.children, strict=False))
        differing = [(a, b) for a, b in pairs if tokens_of(a) != tokens_of(b)]
        parts = len(one.children), len(other.children)
        if parts[0] != parts[1] or len(differing) != 1 or one.type == "string":
            break
        path.append(differing[0])
    for one, other in reversed(path):
        tokens = tokens_of(one)
        if len(tokens) < WORTH or not one.is_named:
            continue
        in_base = [r for r in raw_walk(base.raw) if r.type == one.type and tokens_of(r) == tokens]
        found = [r for r in raw_walk(theirs.raw) if r.type == one.type and tokens_of(r) == tokens]
        if len(in_base) == len(found) == 1:
            inner = one.named_children[0] if one.type == "parenthesized_expression" else one
            moved = path_to(found[0], theirs) != path_to(one, base)
            if moved and one.type == "argument_list":
                continue  # they may be those of another call
            if moved and is_in_its_like(found[0]):
                return None  # `a[0]` that becomes `a[f(a[0])]` is in it, or has another index
            if moved and wraps(other, inner):
                return None  # both put it into something: which one is inside of the other?
            sources = ours.source, theirs.source
            edit = replace_span(sources, other.byte_range, found[0].byte_range)
            is_clear = isinstance(edit, Unsure) or stays_whole(edit, 0, len(edit.text))
            return edit if is_clear else None
    return None


def wraps(outer: tree_sitter.Node, inner: tree_sitter.Node) -> bool:
    """Whether an expression has another one in it, perhaps changed."""
    tokens = tokens_of(inner)
    parts = list(raw_walk(outer.children)) if len(tokens_of(outer)) > len(tokens) else []
    if any(tokens_of(raw) == tokens for raw in parts):
        return True
    told = Counter(tokens)
    whole = max(_share(outer, told), _ALIKE)
    alike = (raw for raw in raw_walk(outer.children) if raw.type == inner.type)
    return any(_share(raw, told) > whole for raw in alike)


def _share(node: tree_sitter.Node, told: Counter[bytes]) -> float:
    """Return the share of the tokens that an expression has in common with counted ones."""
    found = Counter(tokens_of(node))
    return 2 * (found & told).total() / (found.total() + told.total() or 1)


def path_to(node: tree_sitter.Node, block: Block) -> list[str]:
    """Return the kinds of the syntax nodes in a block that hold a node."""
    kinds = []
    while node.parent is not None and node != block.raw[0]:
        node = node.parent
        kinds.append(node.type)
    return kinds


def stays_whole(edit: Edit, start: int, end: int) -> bool:
    """Whether bytes of the text of an edit are an expression in the result, as they are alone.

    ``a + b`` in the place of ``c`` in ``c * d`` is none.
    """
    source = edit.source[: edit.start] + edit.text + edit.source[edit.end :]
    root = parse(source).raw[0]
    span = edit.start + start, edit.start + end
    node = root.descendant_for_byte_range(*span)
    return node is not None and node.byte_range == span


def insert_elements(into: Block, at: int, ours: Block, added: Sequence[Block]) -> Edit | Unsure:
    """Return the edit that puts elements before ``into.elements[at]``, commas included."""
    source, siblings = into.source, into.elements
    found = [_element_text(ours, node) for node in added]
    if not siblings:
        return edit_of(source, into.start + 1, into.start + 1, *_between(b", ", found))
    neighbour = siblings[at - 1] if at else siblings[0]
    own_line = starts_line(source, neighbour.start)
    indent = indent_at(source, neighbour.start)
    old = indent_at(ours.source, added[0].start)
    texts = [
        t if isinstance(t, Unsure) else reindent(t, old, indent, frozenset(), first=False)
        for t in found
    ]
    start = neighbour.start
    if not at:
        glue = b",\n" + indent if own_line else b", "
        return edit_of(source, start, start, *_between(glue, texts), glue)
    end, has_comma = _behind_comma(source, neighbour.end)
    glue = b"\n" + indent if own_line else b" "
    if has_comma:
        end = _behind_comment(source, end) if own_line else end
        last = b"," if at < len(siblings) or own_line else b""
        return edit_of(source, end, end, glue, *_between(b"," + glue, texts), last)
    end = neighbour.end
    if own_line and b"#" in source[end : line_end(source, end)]:
        return Unsure("a comment stands where a comma must go")
    return edit_of(source, end, end, b"," + glue, *_between(b"," + glue, texts))


def _between(glue: bytes, texts: Sequence[bytes | Unsure]) -> list[bytes | Unsure]:
    """Return texts with something between them, as `bytes.join` does."""
    return [part for text in texts for part in (glue, text)][1:]


def delete_element(into: Block, at: int) -> Edit:
    """Return the edit that takes an element and its comma out."""
    source, siblings = into.source, into.elements
    node = siblings[at]
    end, has_comma = _behind_comma(source, node.end)
    if starts_line(source, node.start) and not source[end : line_end(source, end)].strip():
        return Edit(source, line_start(source, node.start), line_end(source, end), b"")
    if at + 1 < len(siblings):
        return Edit(source, node.start, siblings[at + 1].start, b"")
    if at:
        return Edit(source, siblings[at - 1].end, node.end, b"")
    return Edit(source, node.start, end if has_comma else node.end, b"")


def _element_text(ours: Block, node: Block) -> bytes | Unsure:
    """Return an element with the comment lines right above it."""
    source, start = ours.source, node.start
    if not starts_line(source, start):
        return node.text
    while True:
        above = line_start(source, line_start(source, start) - 1)
        line = source[above : line_start(source, start)].strip()
        if above >= line_start(source, start) or not line.startswith(b"#") or above < ours.start:
            break
        start = above + len(indent_at(source, above))
    end, has_comma = _behind_comma(source, node.end)
    comment = source[end : line_end(source, end)].strip()
    if comment.startswith(b"#") and has_comma:
        return Unsure("a comment stands behind the element that the patch adds")
    return source[start : node.end]


def _behind_comma(source: bytes, at: int) -> tuple[int, bool]:
    rest = source[at:]
    stripped = rest.lstrip()
    if stripped.startswith(b","):
        return at + len(rest) - len(stripped) + 1, True
    return at, False


def _behind_comment(source: bytes, at: int) -> int:
    end = line_end(source, at)
    return end - source[:end].endswith(b"\n") if source[at:end].lstrip().startswith(b"#") else at


def line_start(source: bytes, at: int) -> int:
    """Return where the line that holds `at` starts."""
    return source.rfind(b"\n", 0, max(at, 0)) + 1


def line_end(source: bytes, at: int) -> int:
    """Return where the line that holds `at` ends, its line end included."""
    found = source.find(b"\n", at)
    return len(source) if found < 0 else found + 1


def indent_at(source: bytes, at: int) -> bytes:
    """Return the space at the start of the line that holds `at`."""
    line = source[line_start(source, at) : line_end(source, at)]
    return line[: len(line) - len(line.lstrip(b" \t"))]


def _blanks(one: Block | None, other: Block | None) -> int | None:
    """Return how many empty lines stand between two statements."""
    if one is None or other is None:
        return None
    return max(one.source.count(b"\n", one.end, other.start) - 1, 0)


def frozen_lines(nodes: Sequence[Block]) -> frozenset[int]:
    """Return the lines, counted from the first node's, that start inside a string."""
    first = nodes[0].raw[0].start_point.row
    strings = (r for n in nodes for r in raw_walk(n.raw) if r.type == "string")
    return frozenset(
        row - first
        for raw in strings
        for row in range(raw.start_point.row + 1, raw.end_point.row + 1)
    )


def reindent(
    text: bytes, old: bytes, new: bytes, frozen: frozenset[int], *, first: bool = True
) -> bytes | Unsure:
    """Return lines moved from one indentation to another; those inside strings stay."""
    if old == new:
        return text
    lines = text.split(b"\n")
    for number, line in enumerate(lines):
        if number in frozen or (not first and not number) or not line.strip():
            continue
        if not line.startswith(old):
            return Unsure("a line of the change is indented less than its first one")
        lines[number] = new + line[len(old) :]
    return b"\n".join(lines)
