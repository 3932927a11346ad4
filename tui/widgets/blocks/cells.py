"""The cells of the block map: what is drawn for a block, or for a group of blocks.

    █a   full, owned by a              ▃2   part full, shared by 2 sequences
    ░a   free, cached, last held by a  ··   empty

A hit, a copy or an eviction adds a sign to its block, which fades during the next two steps. Drafts
add one for their own step: `?` before the verification, `~` if slots became empty again. A block
that is loaded from the host has one until its content has come. This is a part of the state and not of the wall clock: a paused picture shows it, too.

A test compares the drawn lines with the fold.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from minivllm.tui.draw.drafts import DRAFT, DRAFT_STYLE, UNDONE
from minivllm.tui.draw.lines import Span
from minivllm.tui.state.block_histories import STEPS_OF_BEATS, Beat
from minivllm.tui.state.chains import shared_blocks
from minivllm.tui.state.model import DashboardModel

FILL = "▁▁▂▃▄▅▆▇█"
"""Glyphs for the fill of a block in eighths. An empty block with an owner still shows a line."""
CACHED, EMPTY, SEVERAL = "░", "·", "+"
_EIGHTHS = {glyph: eighths for eighths, glyph in enumerate(FILL)}
_WHOLE = (FILL[-1], EMPTY)
"""If all cells of a group are equal and have one of these glyphs, the group looks like the cell."""

SIGNS: dict[Beat, Span] = {
    "hit": ("●", "good"),
    "copied_from": ("→", "accent"),
    "copied_to": ("←", "accent"),
    "evicted": ("×", "bad"),
    "stored": ("↓", "accent"),
    "rescued": ("≡", "good"),
    "loading": ("↑", "accent"),
}

_FADING: tuple[dict[Beat, Span], ...] = tuple(
    {beat: (glyph, fade.format(colour)) for beat, (glyph, colour) in SIGNS.items()}
    for fade in ("{}*", "{}", "faint")
)
"""By age in steps: bold in the step itself, then normal, then faint."""


class Cell(NamedTuple):
    glyph: str
    mark: str
    style: str
    sign: Span | None = None
    """What happened to the block; bold in the step itself, then normal, then faint."""

    __hash__ = object.__hash__  # because equal cells are the same object


_cell = lru_cache(1 << 12)(Cell)
"""Equal cells are the same object, so that rows and groups of them are found quickly."""
_FREE, _RESERVED = _cell(EMPTY, EMPTY, "faint"), _cell(" ", " ", "faint")


def block_cells(model: DashboardModel, *, fades: bool = True) -> list[Cell]:
    """Make one cell per block.

    fades: whether signs stay for some steps, or only for the step in which something happened

    All full blocks of a sequence share one cell, so that thousands of blocks can be drawn several
    times a second.
    """
    fold, size = model.fold, model.header.block_size
    blocks, cells, ages = fold.blocks, [_FREE] * len(fold.blocks), model.ages.blocks
    num_reserved = model.header.reserved_blocks
    cells[:num_reserved] = [_RESERVED] * num_reserved
    # A released block joins the free queue a few events later; before that, only `changed` has it.
    cached: dict[str | None, Cell] = {}
    for block_id in chain(fold.free_queue, model.ages.changed):
        block = blocks[block_id]
        if block.hash is not None and block.ref_cnt == 0:
            owner = ages[block_id] and ages[block_id].last_owner
            if owner not in cached:
                letter = model.letter(owner)
                faded = "cached" if letter is None else f"{model.hue(letter)}-"
                cached[owner] = _cell(CACHED, letter or EMPTY, faded)
            cells[block_id] = cached[owner]
    filled: dict[int, int] = {}
    # Include waiting sequences: a sequence gets its first block before it is admitted.
    holders = [(seq_id, held) for seq_id, held in fold.sequences.items() if held.block_table]
    for seq_id, sequence in holders:
        letter, computed = model.letter(seq_id) or "?", sequence.num_computed_tokens
        hue = model.hue(letter)
        num_full = computed // size
        for entry, block_id in enumerate(sequence.block_table[num_full:], num_full):
            # With a hash, a block is full, even if its owner still waits, as after a load.
            own = size if blocks[block_id].hash is not None else computed - entry * size
            filled[block_id] = max(filled.get(block_id, 0), own)
            cells[block_id] = _cell(_fill(filled[block_id], size), letter, hue)
    # Full blocks overwrite part-full ones: in a shared block, the sequence with most tokens counts.
    for seq_id, sequence in holders:
        letter = model.letter(seq_id) or "?"
        full = _cell(FILL[-1], letter, model.hue(letter))
        for block_id in sequence.block_table[: sequence.num_computed_tokens // size]:
            cells[block_id] = full
    for block_id in chain.from_iterable(fold.leases.values()):
        if blocks[block_id].ref_cnt == 1:  # no sequence has it: it is kept for another engine
            letter = model.last_owner_letter(block_id)
            cells[block_id] = _cell(FILL[-1], letter or EMPTY, model.hue(letter))
    for block_id in shared_blocks(blocks):
        count = blocks[block_id].ref_cnt
        mark = str(count) if count < 10 else SEVERAL
        cells[block_id] = _cell(cells[block_id].glyph, mark, "shared*")
    for block_id in model.ages.changed:
        glyph, mark, style, _ = cells[block_id]
        cells[block_id] = _cell(glyph, mark, style + "!")
    for block_id, sign in signs(model, fades=fades).items():
        cells[block_id] = _cell(*cells[block_id][:3], sign)
    return cells


def signs(model: DashboardModel, *, fades: bool = True) -> dict[int, Span]:
    """Block -> the sign for what happened to it in the last steps; the newest counts."""
    found: dict[int, Span] = {}
    beats = model.ages.beats[: STEPS_OF_BEATS if fades else 1]
    for age, of_step in reversed(list(enumerate(beats))):  # so that a newer sign replaces an older
        by_beat = _FADING[age]
        if age == 0:
            for load in model.fold.loads.values():
                found.update(dict.fromkeys(load.block_ids, by_beat["loading"]))
        found.update([(block_id, by_beat[beat]) for block_id, beat in of_step.items()])
    for block_id, sign in _draft_signs(model):
        found.setdefault(block_id, sign)
    return found


def _draft_signs(model: DashboardModel) -> Iterator[tuple[int, Span]]:
    """The blocks with drafts that are not verified, or with slots of wrong drafts."""
    size = model.header.block_size
    for item in model.fold.scheduled:
        sequence = model.fold.sequences.get(item.seq_id) if item.draft_token_ids else None
        if sequence is None:
            continue
        stop = item.num_computed_tokens + item.num_tokens
        start = stop - len(item.draft_token_ids) + (item.num_accepted or 0)
        sign = (DRAFT, DRAFT_STYLE) if item.num_accepted is None else (UNDONE, "bad*")
        if start < stop:
            for block_id in sequence.block_table[start // size : -(-stop // size)]:
                yield block_id, sign


def _fill(num_tokens: int, size: int) -> str:
    # Round down, so that only a full block looks full.
    return FILL[min(max(num_tokens, 0), size) * 8 // size]


def group_cells(cells: list[Cell], size: int) -> list[Cell]:
    """One cell per `size` blocks: the share of slots with a token, and the only owner."""
    if size == 1:
        return cells
    return [_group(tuple(cells[start : start + size])) for start in range(0, len(cells), size)]


@lru_cache(1 << 13)
def _group(members: tuple[Cell, ...]) -> Cell:
    # Cached, because most groups are the same as in the last frame.
    if members.count(members[0]) == len(members) and members[0].glyph in _WHOLE:
        return members[0]
    eighths, styles, changed, sign, is_cached = 0, {}, "", None, False
    for glyph, mark, style, what in members:  # one loop: this is a good part of a frame
        if glyph in _EIGHTHS:
            # Tokens and not blocks, so that allocated memory without a token does not look full.
            eighths += _EIGHTHS[glyph]
            styles[mark] = style
        is_cached = is_cached or glyph == CACHED
        changed = "!" if style[-1] == "!" else changed
        sign = sign or what
    if eighths:
        mark, style = styles.popitem() if len(styles) == 1 else (SEVERAL, "text")
        style = style.rstrip("!") + changed
        return _cell(FILL[max(eighths // len(members), 1)], mark, style, sign)
    if is_cached:
        return _cell(CACHED, EMPTY, "cached" + changed, sign)
    return _cell(EMPTY, EMPTY, "faint" + changed, sign)
