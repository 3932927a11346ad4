"""Diagrams of lessons as far as a terminal can show them, from a lesson's own engine.

Where `Say.diagram` names a picture, the site shows that in place of the rows.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from itertools import zip_longest

from minivllm.events.kv_usage import KVUsage
from minivllm.lessons.shown.quantize import Q4Block, dequantize_block
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.tui.widgets.steps.flat_batch import InputToken

_POOL_COLUMNS = 4
_HASH_DIGITS = 4
_WEIGHT_ROWS = 4


def step_loop() -> tuple[str, ...]:
    return (
        "queue → schedule → execute → sample → text",
        "           ↑                    │",
        "           └──── next step ─────┘",
    )


def reservation_bar(usage: KVUsage, num_reservations: int) -> tuple[str, ...]:
    """One of equal reservations and its slots: used, reserved for later, never used."""
    used, reserved, internal = (
        slots // num_reservations for slots in (usage.used, usage.reserved, usage.internal)
    )
    return (
        f"one request's {used + reserved + internal} slots after its first step",
        f"{'#' * used}{'+' * reserved}{'.' * internal}",
        f"# {used} used   + {reserved} reserved   . {internal} never used",
    )


FREE = "·"


def first_fit(memory: str, letter: str, size: int) -> str | None:
    """Reserve the first run of free slots that is long enough; None if there is none.

    The engine's own baseline, `minivllm/core/contiguous.py`, reserves the same for every request.
    Servers that reserved what each request asked for had gaps of all sizes.

    memory: a letter for each slot, that of its owner
    """
    at = memory.find(FREE * size)
    return None if at < 0 else memory[:at] + letter * size + memory[at + size :]


def longest_run(memory: str) -> int:
    """Length of the longest run of free slots."""
    return max(map(len, re.split(f"[^{FREE}]+", memory)))


def table_and_pool(engine: LessonEngine, name: str) -> tuple[str, ...]:
    """The block table of a sequence beside the pool; in the pool, each block has its owner."""
    size, owners = engine.block_size, {}
    for seq_id, sequence in engine.fold.sequences.items():
        owners |= dict.fromkeys(sequence.block_table, seq_id[0])
    table = [
        f"{size * entry:2}-{size * entry + size - 1:<2}  {entry} -> {block:2}"
        for entry, block in enumerate(engine.table(name))
    ]
    blocks = [f"{block:2} {owners.get(block, '·')}" for block in range(engine.num_blocks)]
    pool = [
        "  ".join(blocks[first : first + _POOL_COLUMNS])
        for first in range(0, len(blocks), _POOL_COLUMNS)
    ]
    return (
        "tokens  table     pool",
        *(
            f"{left:15}   {right}".rstrip()
            for left, right in zip_longest(table, pool, fillvalue="")
        ),
    )


def flat_ranges(rows: Seq[InputToken]) -> tuple[str, ...]:
    """The rows, positions and slots of each sequence in a flat batch, as ranges."""
    sequences: dict[str, list[InputToken]] = {}
    for row in rows:
        sequences.setdefault(row.seq_id, []).append(row)
    lines = {
        "": [seq_id.partition(".")[0] for seq_id in sequences],
        "rows": [ranges(row.row for row in own) for own in sequences.values()],
        "positions": [ranges(row.position for row in own) for own in sequences.values()],
        "slots": [ranges(row.slot for row in own) for own in sequences.values()],
    }
    widths = [max(map(len, column)) for column in zip(*lines.values(), strict=True)]
    return tuple(
        f"{head:9}  {'   '.join(map(str.ljust, cells, widths))}".rstrip()
        for head, cells in lines.items()
    )


def ranges(numbers: Iterable[int]) -> str:
    """[4, 5, 6, 9] -> '4-6, 9'"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def chains(engine: LessonEngine, names: Seq[str]) -> tuple[str, ...]:
    """For each name, the hashes of the prompt's full blocks, as a chain."""
    return tuple(f"{name:5} {' ─> '.join(prompt_hashes(engine, name))}" for name in names)


def prompt_hashes(engine: LessonEngine, name: str) -> list[str]:
    """The first digits of the hashes of a prompt's full blocks, while the sequence has them."""
    num_full = engine.facts.requests[name].num_prompt_tokens // engine.block_size
    hashes = [engine.fold.blocks[block].hash for block in engine.table(name)[:num_full]]
    return [block_hash[:_HASH_DIGITS] for block_hash in hashes if block_hash is not None]


def tables_before_and_after(
    before: Mapping[str, Seq[int]], after: Mapping[str, Seq[int]]
) -> tuple[str, ...]:
    """The block tables of a request's samples before and after each has written."""
    rows = [f"{name:6} {_row(before[name])} -> {_row(after[name])}" for name in before]
    kept = [before[name] == after[name] for name in before]
    words = ["writes in place" if stays else "has a copy" for stays in kept]
    return tuple(f"{row}  {word}" for row, word in zip(rows, words, strict=True))


def _row(table: Seq[int]) -> str:
    return f"[{', '.join(map(str, table))}]"


def bits_of_weight(weight: float) -> tuple[str, ...]:
    """A weight's sixteen bits in the file, and its 32 bits in a register."""
    bits = f"{struct.unpack('>I', struct.pack('>f', weight))[0]:032b}"
    parts = f"{bits[0]} {bits[1:9]} {bits[9:16]}"
    return (
        f"weight   {weight:.6f}",
        f"file     {parts}",
        f"register {parts} 0..0",
        "         ± exponent fraction",
    )


def block_of_weights(weights: Seq[float], block: Q4Block) -> tuple[str, ...]:
    """The first weights of a block: as they were, as quants, and as they are read back."""
    read_back = zip(weights[:_WEIGHT_ROWS], block.quants, dequantize_block(block), strict=False)
    return (
        f"scale {block.scale:.4f}, minimum {block.minimum:.4f}",
        "",
        " weight   quant   read back",
        *(f"{weight:7.4f}  {quant:6}  {read:10.4f}" for weight, quant, read in read_back),
        f"    ... and {len(weights) - _WEIGHT_ROWS} more",
    )
