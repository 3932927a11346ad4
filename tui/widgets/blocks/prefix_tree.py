"""Prefix tree: the content of the prefix cache, and what a prompt's lookup found.

Each row is a piece of a chain (`chains.Node`) with its blocks and holders. Marks show the blocks
that a lookup found: the lookup of the selected sequence, or else the last lookup. Blocks that were
reused since the lookup are not marked. The words at the end of a row show what the chain says:

    0-5 abcd 6 blocks ● hit  You are a helpful assistant
    ├─6 7 a 2 blocks  Answer in one word. ≠ Why is the sky
    └─8 9 b 2 blocks  Answer in one word. ≠ What is a fever

If all pieces fit and rows are left, the words get rows of their own, with each block's number:

    ├─6 7 a 2 blocks  ada
    │   6 Answer in one word. ≠ Why is the sky blue? 7 Because air scatters
"""

from collections.abc import Sequence
from itertools import islice
from re import compile as compile_pattern

from minivllm.text import clean, id_ranges, plural, short_name, tail
from minivllm.tui.draw.lines import Line, Row, Span, first_that_fits, flow, line, width_of
from minivllm.tui.draw.selection import Target, block, sequence
from minivllm.tui.state.block_histories import Lookup
from minivllm.tui.state.block_words import UNKNOWN_WORDS, cached_tokens, num_shared
from minivllm.tui.state.chains import Node, PrefixIndex
from minivllm.tui.state.decisions import miss
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.cells import CACHED
from minivllm.tui.widgets.frame.panel import Panel

_IDS_SHOWN = 64
"""Maximum number of blocks to format for a node; more would not fit into a row."""


class PrefixTree(Panel):
    HELP_TITLE = "Prefix cache"
    HELP_TEXT = (
        "The chains of cached blocks, one row for each section without a branch: its"
        " blocks (= the same content in other blocks), then the letters of their owners, or"
        " ░ if the section is free but can still be hit. ● marks the blocks that the lookup"
        " of the selected sequence, or else the newest lookup, found; × marks the entry"
        " where it ended. Then come the first words of the section, in more rows if there is"
        " room, where each block's number precedes its words. ≠ marks the first word in which"
        " it differs from all other sections that follow the same block."
    )
    RULE = "minivllm.core.kv_cache_manager:KVCacheManager.get_computed_blocks"

    def __init__(self, index: PrefixIndex | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._index = index or PrefixIndex()

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        if not model.header.enable_prefix_caching:
            words = "Prefix caching is off: no prompt can reuse another's blocks."
            return [line(width, (words, "muted"))]
        index, chosen = self._index.of(model), self._chosen(model)
        lookup = self._lookup(model)
        hits = _found_there(model, lookup)
        lines = [_headline(model, lookup, width)]
        if not index.roots:
            nothing = line(width, ("nothing is cached: no block is full yet", "faint"))
            return [*lines, nothing][:height]
        nodes, above = _page(index, _in_order(index, hits), chosen, height)
        if above:
            lines.append(line(width, (f"+ {plural(above, 'chain')} above", "faint")))
        marked, is_root = set(hits), [False] * len(lines)
        words = PrefixWords(model, index)
        spare = height - len(lines) - len(nodes) - 1  # one row for the entry that was missed
        is_roomy = spare >= len(nodes)
        for number, node in enumerate(nodes):
            row = _row(model, node, marked, chosen, width)
            if is_roomy:
                _put_names(row, model, node)
            else:
                words.put(row, node)
            lines.append(row.line())
            if is_roomy:
                text = _indented(words, index, node, width, spare // (len(nodes) - number))
                spare -= len(text)
                lines += text
            if lookup is not None and lookup.missed is not None and hits and hits[-1] in node:
                missed = f"× block {lookup.missed} of the prompt: {miss(lookup.why)}"
                lines.append(line(width, (_guide(node.under, width), "faint"), (missed, "warn")))
            is_root += [not node.guide] + [False] * (len(lines) - len(is_root) - 1)
        below = len(index.roots) - above - sum(is_root[:height])
        if height > 2 and (below > 0 or len(lines) > height):
            below += is_root[height - 1 : height] == [True]
            what = f"+ {plural(below, 'more chain')}" if below else "+ more of this chain"
            lines[height - 1 :] = [line(width, (what, "faint"))]
        return lines[:height]

    def targets(self) -> list[Target]:
        """One block for each node, even off the screen: the selected block or the node's first."""
        index, chosen = self._index.of(self._model), self._chosen(self._model)
        order = _in_order(index, _found_there(self._model, self._lookup(self._model)))
        return [block(chosen if chosen in node else node.first) for node in index.nodes(order)]

    def _chosen(self, model: DashboardModel) -> int | None:
        block_id = self.selection.block_id
        return block_id if block_id is not None and block_id < len(model.fold.blocks) else None

    def _lookup(self, model: DashboardModel) -> Lookup | None:
        own = model.lookups.of(self.selection.seq_id)
        return own or (model.lookups.recent[-1] if model.lookups.recent else None)


def _found_there(model: DashboardModel, lookup: Lookup | None) -> list[int]:
    """The blocks that a lookup found and that still have the same content."""
    found: list[int] = []
    for _, block_id, _ in lookup.hits if lookup else ():
        age = model.ages.blocks[block_id]
        taken_since = age is not None and age.born is not None and age.born > lookup.step
        if model.fold.blocks[block_id].hash is None or taken_since:
            break
        found.append(block_id)
    return found


def _in_order(index: PrefixIndex, hits: list[int]) -> list[str]:
    """The roots of all chains; the root of the lookup's chain comes first."""
    first = index.root(hits[0]) if hits else None
    return sorted(index.roots, key=lambda root: root != first)


def _page(
    index: PrefixIndex, order: list[str], chosen: int | None, height: int
) -> tuple[list[Node], int]:
    """The nodes of the page with the selected block, and the number of chains above the page."""
    # Leave room for up to four other rows, which would otherwise push out the selected block.
    size = max(height - 4, 1)
    page = list(islice(index.nodes(order), height))
    root = None if chosen is None else index.root(chosen)
    if root not in order or any(chosen in node for node in page[:size]):
        return page, 0
    above = order.index(root)
    page, found = [], False
    for node in index.nodes(order[above:]):
        if not found and len(page) == size:
            page = []
        page.append(node)
        found = found or chosen in node
        if found and len(page) == height:
            break
    return page, above


def _headline(model: DashboardModel, lookup: Lookup | None, width: int) -> Line:
    if lookup is None:
        return line(width, ("no prompt has been looked up yet", "faint"))
    letter = model.letter(lookup.seq_id)
    who: tuple[Span, ...] = (
        (f"{letter} " if letter else "", f"{model.hue(letter)}*"),
        (short_name(lookup.seq_id), "text*", sequence(lookup.seq_id)),
    )
    found = (f" found {plural(len(lookup.hits), 'block')}", "good" if lookup.hits else "muted")
    if lookup.missed is None:
        everything = (f", all it looked up, in step {lookup.step:,}", "muted")
        return first_that_fits(width, (*who, found, everything), (*who, found))
    why = miss(lookup.why)
    missed = (f", missed entry {lookup.missed}: {why}", "warn")
    return first_that_fits(
        width,
        (*who, (f" in step {lookup.step:,}", "muted"), found, missed),
        (*who, found, missed),
        (*who, (f" found {len(lookup.hits)}, missed: ", "muted"), (why, "warn")),
    )


def _indented(
    words: "PrefixWords", index: PrefixIndex, node: Node, width: int, height: int
) -> list[Line]:
    """The words of a node in at most `height` rows, between the lines of the tree."""
    under = _guide(node.under + ("│ " if index.has_children(node) else "  "), width)
    return [((under, "faint"), *line) for line in words.rows(node, width - len(under), height)]


def _row(model: DashboardModel, node: Node, hits: set[int], chosen: int | None, width: int) -> Row:
    row = Row(width).put(_guide(node.guide, width), "faint")
    num_hit = sum(len(hits.intersection(blocks)) for blocks in node.copies)
    target = block(chosen if chosen in node else node.first)
    for number, (blocks, holders) in enumerate(zip(node.copies, node.holders, strict=True)):
        if number:
            row.put(" = ", "muted")
        ids = id_ranges(blocks[:_IDS_SHOWN]) + (" …" if len(blocks) > _IDS_SHOWN else "")
        # Leave room for the words after the block numbers.
        ids = ids if len(ids) <= max(row.room - 16, 4) else ids[: max(row.room - 17, 3)] + "…"
        row.put(ids if holders else CACHED + ids, "text*" if holders else "cached", target=target)
        row.put(" " if holders else "")
        for seq_id in holders:
            letter = model.letter(seq_id) or "?"
            row.put(letter, f"{model.hue(letter)}*", target=sequence(seq_id))
    if len(node.copies[0]) > 2:
        row.put(f" {len(node.copies[0]):,} blocks", "muted")
    if num_hit:
        whole = num_hit == len(node.copies[0])
        row.put(" ● hit" if whole else f" ● {num_hit} hit", "good")
    if not any(node.holders):
        row.put(" free", "cached")
    if node.orphaned:
        row.put(" unreachable, its beginning is evicted", "warn")
    return row


def _put_names(row: Row, model: DashboardModel, node: Node) -> None:
    """Append the names of the holders, in the order of their letters."""
    row.put(" ")
    for seq_id in dict.fromkeys(seq_id for holders in node.holders for seq_id in holders):
        hue = model.hue(model.letter(seq_id) or "?")
        row.put(" ").put(short_name(seq_id), hue, target=sequence(seq_id))


def _guide(guide: str, width: int) -> str:
    room = max(width // 3, 2)
    return guide if len(guide) <= room else "…" + guide[-room + 1 :]


_LEAST_WORDS = 8
"""Columns that are left for words, at least; else a row has none."""
_SIBLINGS_COMPARED = 64
"""So that a frame stays cheap if hundreds of prompts begin in a different way."""
_MARKERS = compile_pattern(r"(?=<\|)")


class PrefixWords:
    def __init__(self, model: DashboardModel, index: PrefixIndex) -> None:
        self._model, self._index = model, index
        self._pieces = model.fold.token_pieces

    def put(self, row: Row, node: Node) -> None:
        """Append words to a row that already names the node's blocks."""
        if row.room < _LEAST_WORDS:
            return
        row.put("  ")
        row.add(*self._spans(node, row.room, row.room // 3, numbered=False))

    def rows(self, node: Node, width: int, height: int) -> list[Line]:
        """The words in at most `height` rows, with the number of each block before its words."""
        spans = self._spans(node, width * (height + 1), width // 2, numbered=True)
        rows = flow(tuple(spans), width, 0)
        if len(rows) <= height:
            return rows
        return [*rows[: height - 1], (*line(width - 1, *rows[height - 1]), ("…", "muted"))]

    def _spans(self, node: Node, room: int, most_shared: int, *, numbered: bool) -> list[Span]:
        """Spans of at least `room` columns, if there are that many; each selects its block."""
        shared, spans = self._num_shared(node), []
        if not any(self._tokens(block_id) for block_id in node.copies[0]):
            return [(UNKNOWN_WORDS, "faint")]
        for block_id in node.copies[0]:
            tokens, target = self._tokens(block_id), block(block_id)
            texts = [clean(self._pieces.get(token_id, f" {token_id}")) for token_id in tokens]
            if numbered:
                spans.append((f"{' ' * bool(spans)}{block_id} ", "muted", target))
                texts[:1] = [text.removeprefix(" ") for text in texts[:1]]
            if shared is not None and shared < len(texts):
                both = tail("".join(texts[:shared]), most_shared)
                spans += [(both, "muted", target), ("≠", "warn*")]
                texts = texts[shared:]
            # A row can end before a marker such as <|im_end|>, which follows without a space.
            spans += [(text, "text", target) for text in _MARKERS.split("".join(texts))]
            shared = None  # the prompts part in the first block
            room -= sum(width_of(text) for text in texts)
            if room <= 0:
                break
        return spans

    def _tokens(self, block_id: int) -> Sequence[int]:
        return cached_tokens(self._model, self._index, block_id)

    def _num_shared(self, node: Node) -> int | None:
        """How many of its first tokens are also the first of a sibling; None without sibling."""
        state = self._model.fold.blocks[node.first]
        siblings = self._index.children[state.parent][:_SIBLINGS_COMPARED]
        others = [self._index.carriers[name][0] for name in siblings if name != state.hash]
        if not others:
            return None
        return num_shared(self._tokens(node.first), map(self._tokens, others))
