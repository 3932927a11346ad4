"""Host map: the second memory's blocks, and the copies between it and the KV cache.

    ↓ saves  7-9 → 13-15                this step's copies into the host's memory
    ↑ loads  b ben 13-11 → 9 10 8       copies on their way to a waiting sequence
     0 █a   1 █a   2 ░b   3 ··

It is below the block map, so the arrows point where the bytes go.
"""

from operator import attrgetter

from minivllm.text import format_memory, id_ranges, short_name
from minivllm.tui.draw.lines import Line, first_that_fits, line, packed, text_of
from minivllm.tui.draw.selection import Target, host_block, sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.blockmap import Grid, draw, explain, lay_out, mark
from minivllm.tui.widgets.blocks.cells import CACHED, EMPTY, FILL, SIGNS, Cell, group_cells
from minivllm.tui.widgets.frame.panel import Panel

_SAVED, _READ = ((glyph, f"{colour}*") for glyph, colour in (SIGNS["stored"], SIGNS["loading"]))
_EMPTY = Cell(EMPTY, EMPTY, "faint")
_ROOMY = 10
"""Rows from which two of them are for loads."""
_LEGEND = (
    ((("█a", "hue0"),), "rescued: only here"),
    (((f"{CACHED}a", "hue0-"),), "in both"),
    (((EMPTY * 2, "faint"),), "empty"),
    ((_SAVED,), "saved"),
    ((_READ,), "read"),
)
_SAME_RAM = (
    "On a CPU both memories are the same RAM; only the virtual clock models the time of a copy.",
    "On a CPU, both are one RAM; a virtual clock models a copy's time.",
    "On a CPU: one RAM, modelled copy time",
)


class HostMap(Panel):
    HELP_TITLE = "Host memory"
    HELP_TEXT = (
        "The second memory: it keeps copies of blocks that the KV cache is about to evict, under"
        " the same hashes. █ is rescued: evicted from the KV cache, so only the host has it. ░ is"
        " in both. ↓ are this step's copies into the host's memory. ↑ are copies on their way back:"
        " their request owns a slot and its blocks, and waits while others run. If all blocks are"
        " full, the oldest copy is lost. w on a selected block says whose copy it is. On a CPU both"
        " memories are the same RAM, and only the virtual clock models the time that a copy takes"
        " on a GPU."
    )

    def title(self, model: DashboardModel, width: int) -> str:
        blocks, header = len(model.fold.host_blocks), model.header
        return f"Host memory  {blocks:,} CPU blocks, {format_memory(blocks * header.block_bytes)}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        if not model.fold.host_blocks:
            return [line(width, ("this run has no second memory", "faint"))]
        copies = [_stores(model, width), *_loads(model, width, _rows_above(height) - 1)]
        short = (_LEGEND[0][0], "only here"), *_LEGEND[1:3]
        notes = [first_that_fits(width, explain(*_LEGEND), explain(*short, gap="  "))]
        if model.header.config.get("device") != "cuda":
            notes.append(first_that_fits(width, *(((said, "muted"),) for said in _SAME_RAM)))
        grid, room = _lay_out(model, width, height)
        rows = draw(group_cells(_cells(model), grid.blocks_per_cell), grid)[:room]
        chosen = self.selection.host_block
        if chosen is not None and chosen < len(model.fold.host_blocks):
            mark(rows, grid, chosen, width)
        return [*copies, *rows, *[()] * (room - len(rows)), *notes][:height]

    def targets(self) -> list[Target]:
        return [*map(host_block, range(len(self._model.fold.host_blocks)))]

    def target_at(self, x: int, y: int) -> Target | None:
        width, height = self.content_size
        (grid, room), row = _lay_out(self._model, width, height), y - _rows_above(height)
        found = grid.block_at(x, row, len(self._model.fold.host_blocks))
        return host_block(found) if found is not None and 0 <= row < room else None


def _rows_above(height: int) -> int:
    """Rows for this step's copies."""
    return 2 + (height >= _ROOMY)


def _lay_out(model: DashboardModel, width: int, height: int) -> tuple[Grid, int]:
    """The grid, and the rows that it has."""
    notes = 1 + (model.header.config.get("device") != "cuda")
    room = max(height - _rows_above(height) - notes, 1)
    return lay_out(len(model.fold.host_blocks), width, room), room


def _stores(model: DashboardModel, width: int) -> Line:
    stores = model.ages.stores
    if not stores:
        return line(width, ("↓ saves  none in this step", "faint"))
    ids = f"{id_ranges(stores.values())} → {id_ranges(stores)}"
    return line(width, _SAVED, (" saves  ", "muted"), (ids, "text"))


def _loads(model: DashboardModel, width: int, height: int) -> list[Line]:
    """The loads, in exactly `height` rows; if their blocks do not fit, with the number of them."""
    loads, items, counted = model.fold.loads, [], []
    if not loads:
        return [line(width, ("↑ loads  none", "faint")), ()][:height]
    for seq_id, load in loads.items():
        letter, target = model.letter(seq_id), sequence(seq_id)
        ids = f" {id_ranges(load.host_blocks)} → {id_ranges(load.block_ids)}"
        name = f"{letter or '?'} {short_name(seq_id)}", f"{model.hue(letter)}*", target
        items.append((name, (ids, "text")))
        counted.append((name, (f" {len(load.block_ids)}", "text")))
    head, widest = (_READ, (" loads  ", "muted")), max(len(text_of(item)) for item in items)
    fits = len(items) <= height and widest <= width - len(text_of(head))
    rows = packed(items if fits else counted, width, height, head=head, gap="   ")
    return [*rows, ()][:height]


def _cells(model: DashboardModel) -> list[Cell]:
    """Make one cell per block of the host."""
    ages, cells = model.ages, []
    cached = set(map(attrgetter("hash"), model.fold.blocks))
    for number, block in enumerate(model.fold.host_blocks):
        if block.hash is None:
            cells.append(_EMPTY)
            continue
        letter = model.letter(ages.host_owners.get(block.hash))
        glyph, fade = (CACHED, "-") if block.hash in cached else (FILL[-1], "")
        sign = _READ if block.ref_cnt else _SAVED if number in ages.stores else None
        cells.append(Cell(glyph, letter or EMPTY, model.hue(letter) + fade, sign))
    return cells
