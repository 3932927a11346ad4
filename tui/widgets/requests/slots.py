"""Batch slots: the sequences with a slot, their progress, blocks and growing text.

The scheduler has no prefill or decode phase. Here, PREFILL means that the last step computed prompt
or other known tokens, and DECODE means that the step computed only the newest token. LOADING: the
sequence waits, with a slot and its blocks, for blocks from another memory.
"""

from functools import lru_cache

from textual.geometry import Size

from minivllm.events.state import ScheduledState
from minivllm.text import id_ranges, plural, short_name
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.draft_words import put_grammar
from minivllm.tui.widgets.requests.slot_words import put_prompt, put_text

_FOR_REFUSED = 100
"""Minimum width to draw the token that a grammar refused; half of it for a row without blocks."""
_FOR_LABEL = 100
"""Minimum width for the word "blocks" in a slot of one row."""
_FEWEST_WORDS = 4
"""Columns that must be left for the text in a slot of one row."""
_GROUP = 4
"""Slots that get rows together."""
_LONGEST_TABLE = 128
"""Maximum number of blocks of a table to format, so that a frame stays cheap."""


class Slots(Panel):
    """One line per slot. If there is room, a second line shows the text."""

    HELP_TITLE = "Batch slots"
    HELP_TEXT = (
        "One row per running sequence, including each sample or beam of a request (ada,"
        " ada.1): its slot and letter, PREFILL with computed and known tokens or DECODE"
        " with output tokens, the block table, and its text. LOADING: it owns its blocks, and waits"
        " until so many of its known tokens are loaded from another memory. ↺2 means that it was preempted"
        " twice and had to recompute its tokens. A click on a word selects its block. c"
        " colours the words of watched sequences by the model's probability of them. Drafts of the"
        " step: in brackets before they are verified, underlined if right, struck out if wrong;"
        " blue if a grammar forced them. Before the text of a watched sequence with a grammar: how"
        " many tokens it allowed, and struck out, the one that the model wanted instead."
    )
    KEYS = ("engine.tokens", "engine.abort")

    _num_slots = 0
    """The number of slots for which the current height was computed. It only grows, because each
    change moves all other panels.
    """

    def show(self, model: DashboardModel) -> None:
        if (needed := _num_needed(model)) > self._num_slots:
            self._num_slots = needed
            self.refresh(layout=True)
        super().show(model)

    def title(self, model: DashboardModel, width: int) -> str:
        gone = "  last known" if self._is_gone() else ""
        return f"Batch slots  {len(_by_slot(model))} of {model.max_num_seqs}{gone}"

    def _is_gone(self) -> bool:
        """Whether the engine no longer answers, so that the panel shows its last known state."""
        transport = None if self.context is None else self.context.transport
        is_live = transport is not None and transport.state == "live"
        return is_live and transport.source.status.state in ("lost", "ended")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Two lines per slot if that leaves enough for other panels, else one, else what fits."""
        most = max((viewport.height - 9) // 3, 3)
        if not self._num_slots and self.context is not None:
            self._num_slots = _num_needed(self.context.transport.view)
        slots = max(self._num_slots, 1)
        return 2 * slots if 2 * slots <= most else min(slots, most)

    def targets(self) -> list[Target]:
        """The sequences; only the mouse selects the blocks of words."""
        return [target for target in super().targets() if target.kind == "sequence"]

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        fold = model.fold
        by_slot = _by_slot(model)
        num_slots = max(_num_needed(model), min(self._num_slots, model.max_num_seqs))
        tall = 2 * num_slots <= height
        # Show empty slots only if every slot has a row.
        slots = list(range(num_slots)) if num_slots <= height else sorted(by_slot)
        room = height // 2 if tall else height
        shown = slots if len(slots) <= room else slots[: room - 1]
        scheduled = {item.seq_id: item for item in fold.scheduled}
        name_width = max((len(short_name(seq_id)) for seq_id in by_slot.values()), default=0)
        name_width = min(max(name_width, 3), 8 if width < 100 else 14)
        gone, context = self._is_gone(), self.context
        confidence = context is not None and context.shows_confidence
        lines: list[Line] = []
        for slot in shown:
            seq_id = by_slot.get(slot)
            if seq_id is None:
                lines.append(Row(width).put(f"{slot:>2} ", "faint").put("·  free", "faint").line())
                lines.extend([()] if tall else [])
                continue
            item = scheduled.get(seq_id)
            lines += _slot(model, seq_id, item, width, name_width, tall, gone, confidence)
        if len(shown) < len(slots):
            lines.append(_more(model, [by_slot[slot] for slot in slots[room - 1 :]], width))
        return lines or [Row(width).put("no sequence has a slot", "faint").line()]


def _by_slot(model: DashboardModel) -> dict[int, str]:
    """Slot -> its sequence. A sequence whose blocks are being loaded waits, and has a slot."""
    fold = model.fold
    slots = {fold.sequences[seq_id].slot: seq_id for seq_id in (*fold.waiting, *fold.running)}
    slots.pop(None, None)
    return slots


def _num_needed(model: DashboardModel) -> int:
    """Rows for the occupied slots: whole groups of free ones behind them are left out."""
    last = max((slot + 1 for slot in _by_slot(model)), default=1)
    return max(last, min(model.max_num_seqs, -(-last // _GROUP) * _GROUP))


def _slot(
    model: DashboardModel,
    seq_id: str,
    item: ScheduledState | None,
    width: int,
    name_width: int,
    tall: bool,
    gone: bool,
    confidence: bool,
) -> list[Line]:
    sequence = model.fold.sequences[seq_id]
    letter = model.letter(seq_id)
    row, target = Row(width).put(f"{sequence.slot:>2} ", "muted"), to_sequence(seq_id)
    row.put(f"{letter} ", f"{model.hue(letter)}*", target=target)
    row.put(short_name(seq_id), "text*", name_width, target).put(" ")
    row.put(f"↺{sequence.num_preemptions}" if sequence.num_preemptions else "", "warn", 3)
    prefilling = sequence.num_computed_tokens < sequence.num_tokens - 1
    if item is not None:
        prefilling = item.kind == "prefill"
    if sequence.status == "WAITING_FOR_REMOTE_KVS":
        loaded = _num_loaded(model, seq_id)
        does = "LOADING " if seq_id in model.fold.loads else "LOADED  "
        style, done = "warn*", f"{loaded}/{sequence.num_tokens}"
    elif prefilling:
        planned = model.num_tokens_planned(seq_id)
        does, style, done = "PREFILL ", "accent*", f"{sequence.num_computed_tokens}/{planned}"
    else:
        does, style, done = "DECODE  ", "good*", f"+{len(sequence.output_token_ids)}"
    row.put(does, "muted" if gone else style).put(done, "text", 8 if width < 100 else 10)
    blocks = _newest_blocks(tuple(sequence.block_table[-_LONGEST_TABLE - 1 :]))
    if tall:
        row.put(" blocks ", "muted").put(_newest(blocks, max(row.room // 2, 12)), "text").put("  ")
        put_prompt(row, model, sequence)
        under = Row(width).put("     ")
        put_grammar(under, model, seq_id, narrow=width < _FOR_REFUSED // 2)
        put_text(under, model, seq_id, confidence)
        return [row.line(), under.line()]
    label, blocks_width = (" ", 13) if width < _FOR_LABEL else (" blocks ", 18)
    row.put(label, "muted").put(_newest(blocks, blocks_width), "muted", blocks_width).put("  ")
    put_grammar(row, model, seq_id, narrow=width < _FOR_REFUSED)
    if sequence.text and row.room > _FEWEST_WORDS:
        put_text(row, model, seq_id, confidence)
    else:
        put_prompt(row, model, sequence)
    return [row.line()]


def _num_loaded(model: DashboardModel, seq_id: str) -> int:
    """The tokens that a waiting sequence need not compute once its load has ended."""
    fold = model.fold
    num_hits = sum(fold.blocks[it].hash is not None for it in fold.sequences[seq_id].block_table)
    num_loads = len(fold.loads[seq_id].block_ids) if seq_id in fold.loads else 0
    return model.header.block_size * (num_hits + num_loads)


@lru_cache(256)  # because most sequences keep their blocks from frame to frame
def _newest_blocks(block_table: tuple[int, ...]) -> str:
    is_cut = len(block_table) > _LONGEST_TABLE
    return ("… " if is_cut else "") + id_ranges(block_table[-_LONGEST_TABLE:])


def _newest(blocks: str, width: int) -> str:
    return blocks if len(blocks) <= width else "…" + blocks[len(blocks) - width + 1 :]


def _more(model: DashboardModel, seq_ids: list[str], width: int) -> Line:
    row = Row(width).put(f" + {plural(len(seq_ids), 'more slot')}: ", "muted")
    for seq_id in seq_ids:
        if row.room == 0:
            break
        letter = model.letter(seq_id)
        target = to_sequence(seq_id)
        row.put(letter, f"{model.hue(letter)}*", target=target)
        row.put(f" {short_name(seq_id)}", "muted", target=target).put("  ")
    return row.line()
