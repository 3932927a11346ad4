"""What makes a step fast: the roofline, split and merge, drafts, and weights in 4 bits."""

from math import exp, log10

from diagrams.canvas import CELL, MARGIN, WIDTH, Canvas
from diagrams.scenes import scene
from minivllm.events import types as ev
from minivllm.lessons.course.l18_kernel_ladder import BATCH, BF16
from minivllm.lessons.shown.bits import first_matrix
from minivllm.lessons.shown.quantize import (
    LARGEST_QUANT,
    Q4Block,
    dequantize_block,
    pack_block,
    quantize_block,
)
from minivllm.lessons.shown.roofline import H100, operations_per_byte
from minivllm.text import visible

INNER = WIDTH - 2 * MARGIN


# ---- the roofline ----

_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 340, 70, 308
_X_AXIS, _Y_AXIS = (0.5, 2048), (0.5e12, 2e15)


def _at(intensity: float, rate: float) -> tuple[float, float]:
    (x0, x1), (y0, y1) = _X_AXIS, _Y_AXIS
    return (
        _LEFT + (_RIGHT - _LEFT) * log10(intensity / x0) / log10(x1 / x0),
        _BOTTOM - (_BOTTOM - _TOP) * log10(rate / y0) / log10(y1 / y0),
    )


def roofline(canvas: Canvas) -> None:
    engine = scene("roofline").shown
    prompt, decode = (event.num_tokens for event in engine.events_of(ev.StepScheduled))
    peak, balance = H100.operations_per_second, H100.operations_per_byte
    canvas.text(MARGIN, 52, "trillion operations per second", "muted")
    canvas.path([(_LEFT, _TOP), (_LEFT, _BOTTOM), (_RIGHT, _BOTTOM)])
    for trillions in (1, 10, 100, 1000):
        y = _at(1, trillions * 1e12)[1]
        canvas.path([(_LEFT - 4, y), (_LEFT, y)])
        canvas.text(_LEFT - 7, y + 4.5, str(trillions), "muted mono", "end")
    for ticks in (1, 8, 64, 512):
        x = _at(ticks, 1e12)[0]
        canvas.path([(x, _BOTTOM), (x, _BOTTOM + 4)])
        canvas.text(x, _BOTTOM + 18, str(ticks), "muted mono", "middle")
    canvas.text(_RIGHT, _BOTTOM + 38, "operations per byte read", "muted", "end")
    corner = _at(balance, peak)
    canvas.path([corner, (corner[0], _BOTTOM)], "dashed")
    canvas.path([_at(_X_AXIS[0], _X_AXIS[0] * H100.bytes_per_second), corner], "l6 thick")
    canvas.path([corner, _at(_X_AXIS[1], peak)], "l8 thick")
    for label, tokens, dx, dy, anchor in (
        ("d: 1 decode", decode, 12, 5, ""),
        (f"p: prefill of {prompt}", prompt, -12, -4, "end"),
        (f"b: {BATCH} decodes, or prefill of {BATCH}", BATCH, 24, -12, "end"),
    ):
        intensity = operations_per_byte(tokens, BF16)
        x, y = _at(intensity, min(intensity * H100.bytes_per_second, peak))
        canvas.circle(x, y, 5, "text")
        canvas.text(x + dx, y + dy, label, "text", anchor)
    canvas.text(corner[0] - 6, _BOTTOM - 10, f"balance: {balance:.0f}", "muted", "end")
    y = _BOTTOM + 64
    canvas.text(MARGIN, y, "slope", "t6 strong")
    canvas.text(MARGIN + 50, y, "waits for memory: more tokens are", "text")
    canvas.text(MARGIN + 50, y + 18, "nearly free", "text")
    canvas.text(MARGIN, y + 40, "flat", "t8 strong")
    canvas.text(MARGIN + 50, y + 40, "waits for arithmetic", "text")
    canvas.text(MARGIN, y + 64, f"{H100.name}, bfloat16, from its data sheet", "muted")


# ---- split and merge ----

_SCORES = ((2.0, 1.0, 0.0, 1.0), (4.0, 1.0, 3.0, 0.0), (1.0, 2.0, 2.0, 0.0))
"""Scores of twelve tokens in three parts, as an example; the value of token i is the number i."""


def split_and_merge(canvas: Canvas) -> None:
    width, gap = 104, 8
    canvas.text(MARGIN, 58, "12 tokens in 3 parts: scores", "text")
    largest = max(map(max, _SCORES))
    sums, means, weights = [], [], []
    for number, scores in enumerate(_SCORES):
        x = MARGIN + number * (width + gap)
        for at, score in enumerate(scores):
            canvas.rect(x + at * 26, 68, 26, CELL, "h0", 2)
            canvas.text(x + at * 26 + 13, 82.8, f"{score:g}", "text mono", "middle")
        own = [exp(score - max(scores)) for score in scores]
        first = number * len(scores)
        total = sum(own)
        mean = sum(weight * (first + at) for at, weight in enumerate(own)) / total
        sums.append(total)
        means.append(mean)
        weights.append(total * exp(max(scores) - largest))
        middle = x + width / 2
        canvas.arrow([(middle, 92), (middle, 108)])
        canvas.rect(x, 110, width, 88, "box", 5)
        canvas.text(middle, 130, f"program {number}", "text strong", "middle")
        for row, said in enumerate(
            (f"max {max(scores):g}", f"sum {total:.3f}", f"mean {mean:.3f}")
        ):
            canvas.text(middle, 150 + row * 19, said, "text", "middle")
        canvas.arrow([(middle, 200), (middle, 222)])
    merged = sum(w * m for w, m in zip(weights, means, strict=True)) / sum(weights)
    canvas.box(MARGIN, 224, INNER, 122, "merge")
    canvas.text(MARGIN + 66, 245, f"all relative to the largest score, {largest:g}", "muted")
    for number, scores in enumerate(_SCORES):
        canvas.text(
            MARGIN + 10,
            268 + number * 20,
            f"{sums[number]:.3f} × e^({max(scores):g}−{largest:g}) = {weights[number]:.3f}",
            "text mono",
        )
    canvas.text(MARGIN + 10, 334, f"mean of the means, weighted: {merged:.3f}", "text strong")
    flat = [score for scores in _SCORES for score in scores]
    whole = [exp(score - largest) for score in flat]
    direct = sum(at * weight for at, weight in enumerate(whole)) / sum(whole)
    if abs(direct - merged) > 1e-9:
        raise AssertionError("the merged parts are not the whole")
    canvas.paragraph(
        MARGIN,
        370,
        f"As an example, the value of each token is its number, 0 to {len(flat) - 1}. One program"
        f" over all of them gets {direct:.3f}, too.",
        "muted",
    )


# ---- speculation ----


def speculation(canvas: Canvas) -> None:
    engine = scene("speculation").shown
    decode = engine.engine.tokenizer.decode
    proposed = engine.events_of(ev.DraftProposed)[-1]
    verified = engine.events_of(ev.DraftVerified)[-1]
    drafts, accepted = proposed.token_ids, verified.num_accepted
    before = next(
        event.num_computed_tokens
        for event in engine.events_of(ev.StepScheduled)
        if event.step == proposed.step
    )
    drawn = [*drafts[:accepted], verified.token_id]

    def word(token_id: int) -> str:
        return visible(decode([token_id], skip_special_tokens=False))

    canvas.text(MARGIN, 58, "position", "muted")
    canvas.text(88, 58, "computed", "muted")
    canvas.text(214, 58, "drawn there", "muted")
    last_known = engine.fold.requests["ada"].prompt_token_ids
    outputs = engine.sequence("ada").output_token_ids
    known = [*last_known, *outputs][before]
    for row in range(1 + len(drafts)):
        y = 66 + row * (CELL + 16)
        canvas.text(MARGIN + 30, y + 14.8, str(before + row), "muted mono", "end")
        token = word(known) if row == 0 else word(drafts[row - 1])
        if row <= accepted:
            canvas.cell(82, y, 104, "ada", token)
        else:
            canvas.rect(82, y, 104, CELL, "empty", 2)
            canvas.text(134, y + 14.8, token, "bad mono", "middle")
        _drawn(canvas, y, row, accepted, [word(one) for one in drawn])
    bottom = 66 + (1 + len(drafts)) * (CELL + 16) + 8
    y = canvas.paragraph(
        MARGIN,
        bottom + 8,
        f"{accepted} of {len(drafts)} drafts are what was drawn, so the step gave"
        f" {accepted + 1} tokens. The rows after them continued a text that does not exist.",
    )
    y = canvas.lines(MARGIN, y + 14, ["Roll back"], "text strong")
    cell = INNER / (2 * engine.block_size)
    first = before // engine.block_size * engine.block_size
    end = engine.sequence("ada").num_computed_tokens
    for number in range(2 * engine.block_size):
        position, x = first + number, MARGIN + number * cell
        is_wrong = end <= position <= before + len(drafts)
        canvas.cell(x, y, cell, "ada" if position < end else "", "" if is_wrong else str(position))
        if is_wrong:
            canvas.text(x + cell / 2, y + 14.8, str(position), "bad mono", "middle")
            canvas.path([(x + 6, y + CELL - 4), (x + cell - 6, y + 4)], "bad")
    canvas.paragraph(
        MARGIN,
        y + CELL + 22,
        f"num_computed_tokens: {before}, then {before + 1 + len(drafts)}, then back to {end}. The"
        " next step writes over the others.",
    )


def _drawn(canvas: Canvas, y: float, row: int, accepted: int, drawn: list[str]) -> None:
    """What a row drew, and whether it is the draft in the next row."""
    middle = y + CELL / 2
    if row > accepted:
        canvas.text(214, y + 14.8, "not used", "muted")
        return
    canvas.arrow([(188, middle), (208, middle)])
    canvas.text(214, y + 14.8, drawn[row], "text mono strong")
    right = row < accepted
    style = "good" if right else "bad"
    canvas.arrow([(236, y + CELL + 1), (191, y + CELL + 14)], style)
    canvas.text(264, y + 14.8, "= draft" if right else "≠ draft", f"{style} strong")


# ---- a quantized block ----


def quantized_block(canvas: Canvas) -> None:
    engine = scene("quantized-block").shown
    weights = first_matrix(engine.loaded.name)[0, :32].tolist()
    block = quantize_block(weights)
    read = dequantize_block(block)
    left, right, top, bottom = 96, WIDTH - MARGIN - 6, 78, 318
    canvas.text(MARGIN - 4, 58, "value", "muted")
    canvas.text(92, 58, "quant", "muted", "end")
    levels = [bottom - (bottom - top) * quant / LARGEST_QUANT for quant in range(LARGEST_QUANT + 1)]
    for quant, y in enumerate(levels):
        canvas.path([(left - 6, y), (right + 6, y)], "faint")
        canvas.text(left - 12, y + 4.5, str(quant), "muted mono", "end")
        if quant in (0, 5, 10, LARGEST_QUANT):
            value = block.minimum + quant * block.scale
            canvas.text(MARGIN - 4, y + 4.5, f"{value:+.2f}".replace("-", "−"), "muted mono")
    step = (right - left) / (len(weights) - 1)
    for number, (weight, quant) in enumerate(zip(weights, block.quants, strict=True)):
        x = left + number * step
        exact = bottom - (weight - block.minimum) / block.scale * (bottom - top) / LARGEST_QUANT
        canvas.path([(x, exact), (x, levels[quant])], "l8 thick")
        canvas.circle(x, exact, 3.2, "t8")
    worst = max(abs(one - other) for one, other in zip(weights, read, strict=True))
    y = canvas.paragraph(
        MARGIN,
        bottom + 28,
        "32 weights of the house model. Each goes to the nearest of 16 lines, at most half a step"
        f" away: {worst:.4f} here.",
    )
    _bytes(canvas, y + 6, block)


def _bytes(canvas: Canvas, y: float, block: Q4Block) -> None:
    """The block in the file."""
    num_bytes = len(pack_block(block))
    byte = INNER / num_bytes
    canvas.text(MARGIN, y + 12, f"in the file: {num_bytes} bytes for 32 weights", "text strong")
    y += 22
    for x, width, hue in ((0, 2, 6), (2, 2, 7), (4, num_bytes - 4, 8)):
        for number in range(width):
            canvas.rect(MARGIN + (x + number) * byte, y, byte, CELL, f"h{hue}", 2)
    canvas.text(MARGIN, y + 40, f"scale {block.scale:.4f}", "t6 strong")
    canvas.text(MARGIN + 130, y + 40, f"minimum {block.minimum:.4f}".replace("-", "−"), "t7 strong")
    canvas.text(MARGIN, y + 60, "32 quants, 4 bits each: two in a byte", "t8 strong")
