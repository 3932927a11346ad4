"""How requests share blocks: the hash chain, and copy-on-write."""

from textwrap import wrap

from diagrams.canvas import CELL, MARGIN, WIDTH, Canvas
from diagrams.colours import hue_of
from diagrams.scenes import fold_before, scene
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.lessons.shown.drawings import prompt_hashes

HALF = 156
"""Width of one of two columns."""
_BOX = 62
"""Height of a block with its tokens and its hash."""


def hash_chain(canvas: Canvas) -> None:
    engine = scene("hash-chain").shown
    decode = engine.engine.tokenizer.decode
    size, top = engine.block_size, 76.0
    columns = {"ada": MARGIN, "dan": WIDTH - MARGIN - HALF}
    for name, x in columns.items():
        canvas.name(x + HALF / 2, 58, name, "middle")
        hashes = prompt_hashes(engine, name)
        prompt = engine.fold.requests[name].prompt_token_ids
        shared = engine.fold.blocks[engine.table(name)[0]].ref_cnt > 1
        for block, digest in enumerate(hashes):
            own = prompt[block * size : (block + 1) * size]
            words = " ".join(decode([one]).strip() for one in own)
            y = top + block * (_BOX + 44)
            _hashed_block(canvas, x, y, name, block, words, digest)
            if block:
                _chain_arrow(canvas, x + HALF / 2, y, hashes[block - 1])
        if not shared:
            raise AssertionError("the lesson says that block 0 is shared")
    middle = WIDTH / 2
    canvas.text(middle, top + 26, "=", "good title", "middle")
    for block in (1, 2):
        canvas.text(middle, top + 26 + block * (_BOX + 44), "≠", "bad title", "middle")
    canvas.paragraph(
        MARGIN,
        top + 3 * (_BOX + 44) - 20,
        "One token of block 1 differs. Block 2 has the same tokens in both prompts, but the hash"
        " before it differs, so its own hash does, too.",
    )


def _hashed_block(
    canvas: Canvas, x: float, y: float, name: str, block: int, words: str, digest: str
) -> None:
    canvas.rect(x, y, HALF, _BOX, f"h{hue_of(name)}", 5)
    canvas.text(x + 8, y + 18, f"block {block}", "text strong")
    canvas.text(x + HALF - 8, y + 18, digest, "text mono", "end")
    for number, row in enumerate(wrap(words, 19)):
        canvas.text(x + 8, y + 36 + 17 * number, row, "text")


def _chain_arrow(canvas: Canvas, x: float, y: float, digest: str) -> None:
    """From the block before: its hash goes into the next one."""
    canvas.arrow([(x, y - 42), (x, y - 2)])
    canvas.text(x + 8, y - 17, f"+ {digest}", "muted mono")


def copy_on_write(canvas: Canvas) -> None:
    engine = scene("copy-on-write").shown
    before, after = fold_before(engine, ev.BlockCopied), engine.fold
    y = canvas.lines(MARGIN, 60, ["Before: three tables, two blocks"], "text strong")
    y = _tables_and_blocks(canvas, y + 2, before, engine.block_size)
    canvas.path([(MARGIN, y + 10), (WIDTH - MARGIN, y + 10)], "dashed")
    y = canvas.lines(MARGIN, y + 36, ["After: each has written one token"], "text strong")
    copies = {event.dst: event.src for event in engine.events_of(ev.BlockCopied)}
    y = _tables_and_blocks(canvas, y + 2, after, engine.block_size, copies)
    num_copies = len(copies)
    canvas.paragraph(
        MARGIN,
        y + 20,
        f"{num_copies} of {len(after.sequences)} got a copy. For the last one the block was its own"
        " by then: it wrote in place.",
    )


def _tables_and_blocks(
    canvas: Canvas, y: float, fold: Fold, size: int, copies: dict[int, int] | None = None
) -> float:
    """Block tables on the left, the blocks on the right, an arrow for each entry."""
    sequences = {
        seq_id: one for seq_id, one in fold.sequences.items() if one.block_table
    } or fold.sequences
    used = sorted({block for one in sequences.values() for block in one.block_table})
    step = CELL + 14
    place = {block: y + number * step for number, block in enumerate(used)}
    tokens = {
        block: min(max(one.num_computed_tokens - entry * size, 0), size)
        for one in sequences.values()
        for entry, block in enumerate(one.block_table)
    }
    for number, (seq_id, one) in enumerate(sequences.items()):
        row = y + number * step
        canvas.name(MARGIN, row + 14.8, seq_id)
        x = canvas.cells(66, row, 26, "ada", [str(block) for block in one.block_table])
        for entry, block in enumerate(one.block_table):
            ends = [(x + 3, row + CELL / 2), (196, place[block] + CELL / 2)]
            canvas.arrow(ends, "" if entry else "dashed faint")
    for block, row in place.items():
        canvas.text(210, row + 14.8, str(block), "muted mono", "end")
        canvas.block(216, row, 64, "ada", tokens[block], size)
        owners = fold.blocks[block].ref_cnt
        said = (
            f"{owners} owners" if owners > 1 else "copied" if block in (copies or {}) else "1 owner"
        )
        canvas.text(286, row + 14.8, said, "text" if owners > 1 else "muted")
    return y + max(len(sequences), len(used)) * step
