"""Kernel x-ray: one attention kernel at one token, program by program and tile by tile.

The panel replays a trace that the engine has recorded (`kernel.traced`): the reads and results of
each program in one decode. The picture depends only on the trace and on a counter of tiles. On a
device, programs run in parallel; here they are replayed one after another.
"""

from bisect import bisect_right
from itertools import accumulate, groupby
from typing import NamedTuple

from minivllm.events.types.kernels import KernelTraced, TracedProgram, TracedRead
from minivllm.text import clean, short_name
from minivllm.tui.draw.lines import Line, Row, first_that_fits, line
from minivllm.tui.draw.selection import block, sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

TILES_PER_SECOND = 4
_REST = 8
DONE, PLAYING, TO_COME = "█", "▶", "·"
_SIGNS = {DONE: "good", PLAYING: "accent*!", TO_COME: "faint"}


class Moment(NamedTuple):
    program: int
    """Index in the order of the trace."""
    tile: int
    """Index of the tile in that program; 0 if the program has no tiles."""


def num_ticks(trace: KernelTraced) -> int:
    """Number of pictures: one for each tile, and one for each program without tiles."""
    return sum(max(len(program.tiles), 1) for program in trace.programs)


def moment(trace: KernelTraced, counter: int) -> Moment:
    """The moment at this counter; the last moment if the counter is beyond the end."""
    ends = list(accumulate(max(len(program.tiles), 1) for program in trace.programs))
    counter = min(max(counter, 0), ends[-1] - 1)
    program = bisect_right(ends, counter)
    return Moment(program, counter - (ends[program - 1] if program else 0))


class XRay(Panel):
    HELP_TITLE = "Kernel x-ray"
    HELP_TEXT = (
        "The attention kernel at one real token, replayed tile by tile: its programs; the blocks of"
        " each tile that the current program has read (█), is reading (▶) and will read (·), with"
        " the slots if it reads a part of a block; and its online softmax for each query head: the"
        " largest score so far, and the sum of e^(score - largest), before → after the tile. Select"
        " a running sequence and press X; ↑ and ↓ move between tiles. Where Triton is not"
        " installed, a recording from another machine is shown."
    )
    KEYS = ("engine.xray",)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.counter = 0
        """Number of pictures before the current one."""
        self.plays = True
        self._trace: KernelTraced | None = None

    def on_mount(self) -> None:
        self.set_interval(1 / TILES_PER_SECOND, self.tick)

    def tick(self) -> None:
        if self.plays and self._is_drawn() and self.content_size.height:
            self.counter = (self.counter + 1) % (num_ticks(self._trace) + _REST)
            self.show_again()

    def move_cursor(self, by: int) -> bool:
        if not self._is_drawn():
            return False
        self.plays = False
        last = num_ticks(self._trace) - 1
        self.counter = min(max(min(self.counter, last) + by, 0), last)
        self.show_again()
        return True

    def _is_drawn(self) -> bool:
        return self._trace is not None and bool(self._trace.programs)

    def stand_still(self) -> None:
        """Stop at the end, so that a screenshot does not depend on its time."""
        self.plays = False
        if self._is_drawn():
            self.counter = num_ticks(self._trace) - 1
        self.show_again()

    def show(self, model: DashboardModel) -> None:
        if model.trace is not self._trace:
            # After going back in time, the same trace can be another object: compare `seq`.
            seqs = [None if trace is None else trace.seq for trace in (self._trace, model.trace)]
            self._trace = model.trace
            if seqs[0] != seqs[1]:
                self.counter, self.plays = 0, True
        super().show(model)

    def title(self, model: DashboardModel, width: int) -> str:
        if model.trace is None:
            return f"{self.HELP_TITLE}  X"
        return f"{self.HELP_TITLE}{'  █ done  ▶ now  · to come' if width >= 44 else ''}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        trace = model.trace
        if trace is None:
            hint = "No kernel was traced: select a running sequence and press X."
            return [line(width, (hint, "faint"))]
        if trace.problem or not trace.programs:
            return [line(width, (clean(trace.problem or "The kernel ran no program."), "warn"))]
        at = moment(trace, self.counter)
        playing, size = trace.programs[at.program], model.header.block_size
        softmax = _softmax(playing, at.tile, width)
        room, are_ours = max(height - 3 - len(softmax), 1), trace.recorded != "another"
        tiles = _tiles(playing, at.tile, width, room, size, are_ours=are_ours)
        grid = _grid(trace, at.program, width, max(height - 2 - len(tiles) - len(softmax), 1))
        rows = [_head(model, trace, width), *grid, _place(trace, at, width), *tiles, *softmax]
        return rows[:height]


def _head(model: DashboardModel, trace: KernelTraced, width: int) -> Line:
    if trace.recorded == "another":
        return first_that_fits(
            width,
            (
                ("RECORDED ELSEWHERE ", "warn*"),
                (f"of another run, not of {short_name(trace.seq_id)}: ", "text"),
                (_what(trace), "muted"),
            ),
            (("RECORDED, another run ", "warn*"), (f"{trace.num_tokens:,} tokens", "muted")),
        )
    letter = model.letter(trace.seq_id)
    row = Row(width).put("RECORDED ELSEWHERE " if trace.recorded else "", "warn*")
    row.put(f"{letter or '-'} ", f"{model.hue(letter)}*")
    row.put(short_name(trace.seq_id), "text*", target=sequence(trace.seq_id))
    return row.put(f" {_what(trace)}, step {trace.step:,}", "muted").line()


def _what(trace: KernelTraced) -> str:
    return f"layer {trace.layer}, {trace.num_tokens:,} tokens"


def _sign(number: int, current: int) -> str:
    return DONE if number < current else PLAYING if number == current else TO_COME


def _grid(trace: KernelTraced, current: int, width: int, most: int) -> list[Line]:
    """One sign per program, in rows for each kernel: at most `most`, around the current one."""
    rows: dict[tuple[str, int], list[int]] = {}
    axes = {kernel: _row_axis(trace, kernel) for kernel in {part.kernel for part in trace.programs}}
    for number, program in enumerate(trace.programs):
        rows.setdefault((program.kernel, program.program[axes[program.kernel]]), []).append(number)
    drawn: list[Line] = []
    for (kernel, _), numbers in rows.items():
        for start in range(0, len(numbers), max(width, 1)):
            part = numbers[start : start + max(width, 1)]
            if current in part:
                at = len(drawn)
            row = Row(width)
            for sign, run in groupby(_sign(number, current) for number in part):
                row.put(sign * len(list(run)), _SIGNS[sign])
            drawn.append(row.put(f" programs of {clean(kernel)}", "faint").line())
    return _around(drawn, at, most)


def _row_axis(trace: KernelTraced, kernel: str) -> int:
    """The axis with a row for each value: the first that varies; if only one does, another one."""
    places = (program.program for program in trace.programs if program.kernel == kernel)
    varies = [len(set(along)) > 1 for along in zip(*places, strict=True)]
    return varies.index(sum(varies) > 1)


def _around(rows: list[Line], at: int, most: int) -> list[Line]:
    first = min(max(at - most // 2, 0), max(len(rows) - most, 0))
    return rows[first : first + most]


def _place(trace: KernelTraced, at: Moment, width: int) -> Line:
    program = trace.programs[at.program]
    number = (f"program {at.program + 1} of {len(trace.programs)}", "accent*")
    grid = (f", grid index ({', '.join(map(str, program.program))})", "text")
    head = ("" if program.kv_head is None else f", reads KV head {program.kv_head}", "text")
    return first_that_fits(width, (number, grid, head), (number, head))


def _tiles(
    program: TracedProgram, current: int, width: int, most: int, size: int, *, are_ours: bool
) -> list[Line]:
    """A row for each tile with its blocks; if they do not fit, the tiles around the current one.

    size: slots of a block
    are_ours: whether the blocks belong to this engine's pool
    """
    if not program.tiles:
        return [line(width, ("reads no keys: combines the other programs' results", "muted"))]
    rows = []
    for number, tile in enumerate(program.tiles):
        sign = _sign(number, current)
        style = _SIGNS[sign].removesuffix("!")
        row = Row(width).put(sign, _SIGNS[sign])
        row.put(f" tile {number + 1} of {len(program.tiles)}: blocks ", "muted")
        for read in tile.reads:
            row.put(_read(read, size), style, target=block(read.block_id) if are_ours else None)
            row.put(" ")
        rows.append(row.line())
    return _around(rows, current, most)


def _read(read: TracedRead, size: int) -> str:
    """A block, and the slots if only some were read: `9 (slots 4-11)`."""
    if read.num_slots == size:
        return str(read.block_id)
    last = read.first_slot + read.num_slots - 1
    if last == read.first_slot:
        return f"{read.block_id} (slot {last})"
    return f"{read.block_id} (slots {read.first_slot}-{last})"


def _softmax(program: TracedProgram, current: int, width: int) -> list[Line]:
    """For each query head, the largest score and the sum before and after the current tile."""
    if not program.tiles:
        return []
    after = program.tiles[current]
    before = program.tiles[current - 1] if current else None
    group = len(after.running_max)
    heading = f"after tile {current + 1}: largest score, sum of"
    choices = (((f"{heading} {term}", "muted"),) for term in ("e^(score - largest)", "exp"))
    lines = [first_that_fits(width, *choices)]
    pairs = zip(after.running_max, after.running_sum, strict=False)
    for head, (largest, total) in enumerate(pairs):
        was = ("", "")
        if before is not None:
            was = f"{before.running_max[head]:.2f} → ", f"{before.running_sum[head]:.2f} → "
        number = head if program.kv_head is None else program.kv_head * group + head
        numbers = ((was[0], "muted"), (f"{largest:.2f}", "text*"))
        sums = ((was[1], "muted"), (f"{total:.2f}", "text*"))
        lines.append(
            first_that_fits(
                width,
                ((f"query head {number}: largest ", "muted"), *numbers, (", sum ", "muted"), *sums),
                ((f"head {number}: max ", "muted"), *numbers, (" sum ", "muted"), *sums),
            )
        )
    return lines
