"""The words in a block: its tokens, those that this step wrote, and the blocks before and after it.

A block in use gets them from its owner. A free block that is still cached has them from the moment
it was registered (`BlockAges.tokens`).
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from minivllm.text import visible
from minivllm.tui.context import Context
from minivllm.tui.state.chains import PrefixIndex
from minivllm.tui.state.model import DashboardModel

UNKNOWN_WORDS = "older than the recording: words unknown"
"""Said of a block that was cached before the recording began."""


class Contents(NamedTuple):
    token_ids: Sequence[int]
    """Tokens whose keys and values are in the block."""
    num_prompt: int
    """How many of them belong to the owner's prompt; the rest is its output."""
    new: range
    """Those that the current step has written, as indices of `token_ids`."""
    drafts: Sequence[tuple[int, bool | None]] = ()
    """(token id, whether it was right; None before the verification) of the step's drafts that are
    behind these tokens. The slots of wrong drafts are written, but count as empty again.
    """


def contents(model: DashboardModel, block_id: int, owners: list[tuple[str, int]]) -> Contents:
    """The tokens in a block.

    owners: the block's (sequence, index in its block table), as of `DashboardModel.owners`
    """
    if not owners:
        cached = model.ages.tokens(block_id)
        return Contents(cached, len(cached), range(0))
    size, sequences = model.header.block_size, model.fold.sequences
    # Other owners of a shared block may not have computed its tokens yet.
    seq_id, entry = max(owners, key=lambda owner: sequences[owner[0]].num_computed_tokens)
    first, state = entry * size, sequences[seq_id]
    last = min(first + model.num_written(block_id, owners), state.num_tokens)
    prompt = model.fold.requests[state.request_id].prompt_token_ids[first:last]
    skipped = max(first - state.num_prompt_tokens, 0)
    output = state.output_token_ids[skipped : max(last - state.num_prompt_tokens, 0)]
    token_ids = [*prompt, *output]
    drafts = _drafts(model, seq_id, first + len(token_ids), first + size)
    return Contents(token_ids, len(prompt), _new(model, owners, first, last), drafts)


def _drafts(
    model: DashboardModel, seq_id: str, start: int, stop: int
) -> list[tuple[int, bool | None]]:
    """The drafts of this step at the positions from `start` to `stop`."""
    draft = model.drafts.current(seq_id, model.fold.step)
    if draft is None:
        return []
    accepted = draft.num_accepted
    return [
        (token_id, None if accepted is None else at < accepted)
        for at, token_id in enumerate(draft.token_ids)
        if start <= draft.position + at < stop
    ]


def _new(model: DashboardModel, owners: list[tuple[str, int]], first: int, last: int) -> range:
    """Which of the positions `first` to `last` the current step writes, counted from `first`."""
    held_by = {seq_id for seq_id, _ in owners}
    for item in model.fold.scheduled:
        state = model.fold.sequences.get(item.seq_id)
        if item.seq_id in held_by and state is not None:
            start = max(item.num_computed_tokens, state.num_cached_tokens, first)
            stop = min(item.num_computed_tokens + item.num_tokens, last)
            if start < stop:
                return range(start - first, stop - first)
    return range(0)


def neighbours(
    model: DashboardModel, index: PrefixIndex, block_id: int, owners: list[tuple[str, int]]
) -> tuple[int | None, list[int]]:
    """The blocks with the text before and after a block, in its owners or in the prefix cache.

    Several blocks are after it if prompts part behind it.
    """
    if owners:
        tables = [(model.fold.sequences[seq_id].block_table, entry) for seq_id, entry in owners]
        table, entry = tables[0]
        after = dict.fromkeys(table[at + 1] for table, at in tables if at + 1 < len(table))
        return table[entry - 1] if entry else None, list(after)
    state = model.fold.blocks[block_id]
    if state.hash is None:
        return None, []
    before = index.carriers.get(state.parent, [None])[0]
    return before, [index.carriers[name][0] for name in index.children.get(state.hash, ())]


def cached_tokens(model: DashboardModel, index: PrefixIndex, block_id: int) -> Sequence[int]:
    """The tokens of a full block that is in the prefix cache; empty if they are unknown."""
    known = model.ages.tokens(block_id)
    if known:
        return known
    # Cached before the recording began: an owner has the tokens.
    tables = model.fold.sequences
    owners = [
        (seq_id, tables[seq_id].block_table.index(block_id))
        for seq_id in index.holders.get(block_id, ())
    ]
    return contents(model, block_id, owners).token_ids


def num_shared(tokens: Sequence[int], others: Iterable[Sequence[int]]) -> int:
    """How many tokens at the beginning of `tokens` are also at the beginning of one of `others`."""
    most = 0
    for other in others:
        if other[: most + 1] == tokens[: most + 1]:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(tokens, other, strict=False))
            most = sum(1 for _ in same)
    return most


def words(model: DashboardModel, token_ids: Sequence[int], context: Context) -> list[str]:
    """Each token with its spaces marked; its id if it has no word."""
    pieces = model.fold.token_pieces
    return [
        visible(pieces.get(token_id, ""), context.ascii) or str(token_id) for token_id in token_ids
    ]
