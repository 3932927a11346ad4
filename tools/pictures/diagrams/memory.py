"""What memory holds: keys and values, reservations, blocks behind a block table."""

from collections import Counter

from diagrams.canvas import CELL, LINE, MARGIN, WIDTH, Canvas
from diagrams.colours import hue_of
from diagrams.scenes import fold_after, scene
from minivllm.events.fold import Fold

INNER = WIDTH - 2 * MARGIN


def kv_cache(canvas: Canvas) -> None:
    engine = scene("kv-cache").engines["with a KV cache"]
    config, width = engine.loaded.config, engine.loaded.dtype.itemsize
    layers, heads, size = (
        config.num_hidden_layers,
        config.num_key_value_heads,
        config.head_size,
    )
    tokens, cell, left = 6, 34, 108
    canvas.text(left, 60, "tokens of ada's text", "muted")
    for token in range(tokens):
        canvas.text(left + cell * (token + 0.5), 80, str(token), "muted mono", "middle")
    canvas.text(left + cell * tokens + 8, 80, "...", "muted")
    y = 90.0
    for layer in (0, 1, layers - 1):
        if layer == layers - 1:
            canvas.text(MARGIN + 20, y + 8, "...", "muted strong")
            y += 22
        canvas.text(MARGIN, y + 14, f"layer {layer}", "text strong")
        for head in range(heads):
            for kind in ("K", "V"):
                if kind == "K":
                    canvas.text(left - 8, y + 33, f"head {head}", "muted", "end")
                for token in range(tokens):
                    canvas.cell(left + cell * token, y, cell, "ada", kind)
                y += CELL
            y += 4
        y += 8
    bottom = y - 8
    x = left + cell * 2
    canvas.path([(x, 86), (x + cell, 86), (x + cell, bottom), (x, bottom), (x, 86)], "bad thick")
    canvas.arrow([(x + cell / 2, bottom + 24), (x + cell / 2, bottom + 3)], "bad")
    per_token = 2 * layers * heads * size * width
    if per_token != engine.bytes_per_token:
        raise AssertionError(f"{per_token} bytes, but the engine says {engine.bytes_per_token}")
    canvas.text(MARGIN, bottom + 42, "one token:", "bad strong")
    canvas.lines(
        MARGIN,
        bottom + 42 + LINE,
        [
            f"2 (K and V) × {layers} layers × {heads} heads",
            f"× {size} numbers × {width} bytes = {per_token:,} bytes",
        ],
        "text",
    )


def reserved_and_used(canvas: Canvas) -> None:
    engines = scene("reserved-and-used").engines
    naive, paged = engines["contiguous reservations"], engines["paging"]
    crowded = naive.usage[1]
    fold = fold_after(naive, 2)
    y = canvas.lines(
        MARGIN, 56, [f"{crowded.total} slots, reserved for the longest answer:"], "text strong"
    )
    y = _slots(canvas, y - 6, fold, naive.num_blocks, naive.block_size)
    waiting = fold.waiting
    y = canvas.paragraph(
        MARGIN,
        y + 22,
        f"{len(fold.running)} requests run, {len(waiting)} wait. {crowded.used} slots hold a token."
        f" {crowded.allocated - crowded.used} are reserved and empty, and the {crowded.external}"
        " dashed ones are too few for a reservation.",
    )
    first = fold_after(paged, 1)
    now = paged.usage[0]
    y = canvas.lines(MARGIN, y + 16, ["The same memory in blocks, on demand:"], "text strong")
    y = _slots(canvas, y - 6, first, paged.num_blocks, paged.block_size)
    canvas.paragraph(
        MARGIN,
        y + 22,
        f"All {len(first.running)} requests run. {now.used} slots hold a token,"
        f" {now.allocated - now.used} are empty places in last blocks, and the"
        f" {now.total - now.allocated} dashed ones are free for any request.",
    )


def _slots(canvas: Canvas, y: float, fold: Fold, num_blocks: int, size: int) -> float:
    """All slots of the memory, five blocks in a row. Returns the y below them."""
    tokens, owners = _tokens_and_owners(fold, size)
    per_row, gap = 5, 4
    width = (INNER - gap * (per_row - 1)) / per_row
    for block in range(num_blocks):
        row, column = divmod(block, per_row)
        canvas.block(
            MARGIN + column * (width + gap), y + row * (CELL + gap), width,
            owners.get(block, ""), tokens[block], size,
        )  # fmt: skip
    return y + -(-num_blocks // per_row) * (CELL + gap)


def _tokens_and_owners(fold: Fold, size: int) -> tuple[Counter[int], dict[int, str]]:
    tokens: Counter[int] = Counter()
    owners = {}
    for seq_id, sequence in fold.sequences.items():
        for entry, block in enumerate(sequence.block_table):
            tokens[block] = min(max(sequence.num_computed_tokens - entry * size, 0), size)
            owners[block] = seq_id.partition(".")[0]
    return tokens, owners


def block_table(canvas: Canvas) -> None:
    engine = scene("block-table").shown
    size, table = engine.block_size, engine.table("ada")
    tokens, owners = _tokens_and_owners(engine.fold, size)
    top, step = 84.0, CELL + 8
    canvas.name(MARGIN, 58, "ada")
    canvas.text(MARGIN + 28, 58, "'s text", "text")
    canvas.text(MARGIN, 76, "logical blocks", "muted")
    canvas.text(150, 58, "block table", "text", "middle")
    canvas.text(244, 58, "pool", "text")
    canvas.text(244, 76, "physical blocks", "muted")
    for entry, block in enumerate(table):
        y = top + entry * step
        canvas.text(MARGIN, y + 14.8, str(entry), "muted mono")
        canvas.block(MARGIN + 14, y, 72, "ada", tokens[block], size)
        canvas.arrow([(102, y + CELL / 2), (124, y + CELL / 2)])
        canvas.cell(128, y, 44, "ada", str(block))
        canvas.arrow(
            [(176, y + CELL / 2), (216, _pool_y(top, block) + CELL / 2)], f"l{hue_of('ada')}"
        )
    for block in range(engine.num_blocks):
        y = _pool_y(top, block)
        canvas.text(236, y + 14.8, str(block), "muted mono", "end")
        owner = owners.get(block, "")
        canvas.block(244, y, 72, owner, tokens[block], size)
        if owner:
            canvas.name(322, y + 14.8, owner)
    bottom = _pool_y(top, engine.num_blocks)
    position = 2 * size + 1
    slot = table[2] * size + position % size
    y = canvas.lines(
        MARGIN,
        top + 4 * step + 24,
        [f"token {position}:", f"entry {position // size}, offset {position % size}"],
        "text",
    )
    canvas.lines(
        MARGIN, y, [f"slot {table[2]} × {size} + {position % size} = {slot}"], "text strong"
    )
    canvas.lines(MARGIN, bottom - 26, ["free blocks may be", "anywhere, too"], "muted")
    _page_table(canvas, bottom + 26)


def _page_table(canvas: Canvas, y: float) -> None:
    """The same with an operating system's words: the numbers are examples."""
    canvas.path([(MARGIN, y - 12), (WIDTH - MARGIN, y - 12)], "dashed")
    canvas.text(MARGIN, y + 12, "The same idea in an operating system", "text strong")
    canvas.text(MARGIN, y + 34, "pages", "muted")
    canvas.text(150, y + 34, "page table", "muted", "middle")
    canvas.text(244, y + 34, "frames", "muted")
    top, frames = y + 44, {0: 2, 1: 0, 2: 3}
    for page, frame in frames.items():
        row = top + page * (CELL + 8)
        canvas.rect(MARGIN, row, 84, CELL, "box")
        canvas.text(MARGIN + 42, row + 14.8, str(page), "text mono", "middle")
        canvas.arrow([(102, row + CELL / 2), (124, row + CELL / 2)])
        canvas.rect(128, row, 44, CELL, "box")
        canvas.text(150, row + 14.8, str(frame), "text mono", "middle")
        canvas.arrow([(176, row + CELL / 2), (216, _pool_y(top, frame) + CELL / 2)])
    for frame in range(4):
        row = _pool_y(top, frame)
        canvas.text(236, row + 14.8, str(frame), "muted mono", "end")
        canvas.rect(244, row, 72, CELL, "box" if frame in frames.values() else "empty")


def _pool_y(top: float, block: int) -> float:
    return top + block * (CELL + 2)
