"""The words of a piece of a chain: as many as fit on a row, or in several rows of their own.

    Tell me a story about a≠ dragon.            one row, after the block numbers
    6 Tell me a story about a≠ dragon. 7 Then   several rows: each block's number, then its words

≠ stands before the first word in which the piece differs from all others that follow its parent.
"""

from collections.abc import Sequence
from re import compile as compile_pattern

from minivllm.text import clean, tail
from minivllm.tui.draw.lines import Line, Row, Span, flow, line, width_of
from minivllm.tui.draw.selection import block
from minivllm.tui.state.block_words import UNKNOWN_WORDS, cached_tokens, num_shared
from minivllm.tui.state.chains import Node, PrefixIndex
from minivllm.tui.state.model import DashboardModel

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
            texts = [
                clean(self._pieces.get(token_id, f" {token_id}"))
                for token_id in self._tokens(block_id)
            ]
            target = block(block_id)
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
