"""What happens in steps: users and engine, the loop, one pass for many lengths, preemption."""

from collections.abc import Sequence as Seq

from diagrams.canvas import CELL, MARGIN, WIDTH, Canvas
from diagrams.colours import hue_of
from diagrams.scenes import fold_before_sampling, scene
from minivllm.events import types as ev
from minivllm.lessons.course.l00_what_serving_is import THREE
from minivllm.lessons.course.l05_batching import TITLES, WISHES
from minivllm.lessons.course.l10_preemption import PEOPLE
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import idle_slots_while_waiting
from minivllm.tui.widgets.steps.flat_batch import InputToken, input_tokens

INNER = WIDTH - 2 * MARGIN
MIDDLE = WIDTH / 2


def serving(canvas: Canvas) -> None:
    width, gap = 100, 14
    centres = [MARGIN + width / 2 + number * (width + gap) for number in range(len(THREE))]
    for name, x in zip(THREE, centres, strict=True):
        canvas.rect(x - width / 2, 48, width, 34, f"h{hue_of(name)}", 6)
        canvas.text(x, 70, name, "text strong", "middle")
        canvas.arrow([(x - 12, 84), (x - 12, 126)], f"l{hue_of(name)}")
        canvas.arrow([(x + 12, 126), (x + 12, 84)], f"l{hue_of(name)}")
    canvas.text((centres[0] + centres[1]) / 2, 109, "prompts", "muted", "middle")
    canvas.text((centres[1] + centres[2]) / 2, 109, "text", "muted", "middle")
    canvas.box(MARGIN, 128, INNER, 86, "engine")
    canvas.text(MARGIN + 70, 149, "plans each step", "muted")
    canvas.text(MARGIN + 10, 176, "scheduler:", "text")
    canvas.text(MARGIN + 112, 176, "which requests run?", "text")
    canvas.text(MARGIN + 10, 198, "blocks:", "text")
    canvas.text(MARGIN + 112, 198, "who has which memory?", "text")
    canvas.arrow([(104, 216), (104, 268)], "thick")
    canvas.arrow([(256, 268), (256, 216)], "thick")
    canvas.text(96, 246, "one batch", "muted", "end")
    canvas.text(248, 246, "one token each", "muted", "end")
    canvas.box(MARGIN, 270, INNER, 116, "device")
    canvas.text(MARGIN + 70, 291, "computes: a GPU, or this CPU", "muted")
    canvas.rect(MARGIN + 10, 304, INNER - 20, 30, "cached", 4)
    canvas.text(MIDDLE, 324, "weights, once for all users", "text", "middle")
    cell = (INNER - 20) / len(THREE)
    for number, name in enumerate(THREE):
        canvas.rect(MARGIN + 10 + number * cell, 342, cell, 30, f"h{hue_of(name)}", 4)
        x = MARGIN + 10 + (number + 0.5) * cell
        canvas.text(x, 362, f"{name}'s K, V", "text", "middle")


def step_loop(canvas: Canvas) -> None:
    engine = scene("step-loop").shown
    first, second = engine.events_of(ev.StepScheduled)[:2]
    left, width = 40, 230
    phases = (
        ("schedule", "which requests run, with which", "of their tokens?"),
        ("execute", "one pass of the model over all", "tokens of the step"),
        ("sample", "one new token for each request", "that has computed all it knows"),
    )
    canvas.text(left + width / 2, 58, "waiting requests", "muted", "middle")
    canvas.arrow([(left + width / 2, 64), (left + width / 2, 86)])
    y = 88.0
    for name, what, more in phases:
        canvas.box(left, y, width, 70, name)
        canvas.text(left + 10, y + 42, what, "text")
        canvas.text(left + 10, y + 60, more, "text")
        if name != "sample":
            canvas.arrow([(left + width / 2, y + 72), (left + width / 2, y + 92)])
        y += 94
    bottom, side = y - 24, left + width + 34
    canvas.arrow(
        [
            (left + width + 2, bottom - 36),
            (side, bottom - 36),
            (side, 122),
            (left + width + 3, 122),
        ],
        "accent thick",
    )
    canvas.text(WIDTH - MARGIN, 113, "next step", "accent strong", "end")
    canvas.arrow([(left + 40, bottom + 2), (left + 40, bottom + 18)])
    canvas.text(MARGIN, bottom + 35, "text to the users; finished requests leave", "muted")
    canvas.name(MARGIN, bottom + 66, "ada")
    canvas.text(MARGIN + 32, bottom + 66, f"in step 1: {first.num_tokens} tokens in, 1 out", "text")
    canvas.text(MARGIN + 32, bottom + 86, f"in step 2: {second.num_tokens} token in, 1 out", "text")


# ---- the flattened batch ----


def flattened_batch(canvas: Canvas) -> None:
    engine = scene("flattened-batch").shown
    total = sum(item.num_tokens for item in engine.fold.scheduled)
    rows = list(input_tokens(engine.model, 0, total))
    sequences: dict[str, list[InputToken]] = {}
    for row in rows:
        sequences.setdefault(row.seq_id.partition(".")[0], []).append(row)
    longest = max(map(len, sequences.values()))
    padding = longest * len(sequences) - total
    canvas.text(MARGIN, 58, f"Padded: {longest * len(sequences)} places", "text strong")
    canvas.text(344, 58, f"{padding} are padding", "muted", "end")
    left, cell = 60, (WIDTH - MARGIN - 60) / longest
    for number, (name, own) in enumerate(sequences.items()):
        y = 68 + number * (CELL + 4)
        canvas.name(MARGIN, y + 14.8, name)
        for place in range(longest):
            if place < len(own):
                canvas.cell(left + place * cell, y, cell, name, str(own[place].position))
            else:
                canvas.cell(left + place * cell, y, cell)
    y = 68 + len(sequences) * (CELL + 4)
    canvas.arrow([(MIDDLE, y + 4), (MIDDLE, y + 30)], "thick")
    _flat_lists(canvas, y + 56, sequences, rows)


def _flat_lists(
    canvas: Canvas, y: float, sequences: dict[str, list[InputToken]], rows: Seq[InputToken]
) -> None:
    canvas.text(MARGIN, y, f"Flattened: {len(rows)} rows", "text strong")
    canvas.text(344, y, "no padding", "muted", "end")
    cell = INNER / len(rows)
    lists = (
        ("positions: where in its text is the token?", [row.position for row in rows]),
        ("slot mapping: where do its keys and values go?", [row.slot for row in rows]),
    )
    y += 4
    for title, values in lists:
        canvas.text(MARGIN, y + 14, title, "muted")
        y += 21
        for row, value in zip(rows, values, strict=True):
            name = row.seq_id.partition(".")[0]
            canvas.cell(MARGIN + row.row * cell, y, cell, name, str(value))
        y += CELL + 6
    starts = [*(own[0].row for own in sequences.values()), len(rows)]
    y += 12
    for start in starts:
        x = MARGIN + start * cell
        canvas.arrow([(x, y), (x, y - 14)])
        canvas.text(x, y + 15, str(start), "text mono", "end" if start == len(rows) else "middle")
    canvas.text(MARGIN, y + 36, "query_start_loc: where do sequences begin?", "muted")


# ---- batching ----


def batching(canvas: Canvas) -> None:
    engines = scene("batching").engines
    steps = max(engines[TITLES[kind]].fold.step for kind in ("static", "continuous"))
    y = 58.0
    for kind in ("static", "continuous"):
        engine = engines[TITLES[kind]]
        canvas.text(MARGIN, y, TITLES[kind], "text strong")
        canvas.text(WIDTH - MARGIN, y, f"{engine.fold.step} steps", "muted", "end")
        y = _batch_slots(canvas, y + 8, engine, steps) + 34
    idle = idle_slots_while_waiting(engines[TITLES["static"]])
    x = MARGIN
    for name in WISHES:
        canvas.name(x, y - 6, name)
        x += 46
    canvas.paragraph(
        MARGIN,
        y + 18,
        f"Two slots, four requests. In the static batch, bob's slot is empty for {idle} steps while"
        " cleo waits. With continuous batching, she gets it in the next step.",
    )


def _batch_slots(canvas: Canvas, y: float, engine: LessonEngine, steps: int) -> float:
    """A row for each batch slot and a column for each step. Returns the y below them."""
    left = MARGIN + 44
    cell = (WIDTH - MARGIN - left) / steps
    slot_of = {event.seq_id: event.slot for event in engine.events_of(ev.RequestAdmitted)}
    ran = {
        (slot_of[event.seq_id], event.step): event.seq_id.partition(".")[0]
        for event in engine.events_of(ev.StepScheduled)
    }
    for slot in range(engine.header.max_num_seqs):
        row = y + slot * (CELL + 4)
        canvas.text(MARGIN, row + 14.8, f"slot {slot}", "muted")
        for step in range(1, engine.fold.step + 1):
            name = ran.get((slot, step), "")
            canvas.cell(left + (step - 1) * cell, row, cell, name, name[:1])
    return y + engine.header.max_num_seqs * (CELL + 4)


# ---- preemption ----


def preemption(canvas: Canvas) -> None:
    engine = next(
        one for name, one in scene("preemption").engines.items() if name.startswith("12 blocks")
    )
    last = engine.fold.step
    left, top = 66, 84.0
    cell = (WIDTH - MARGIN - left) / last
    held = _blocks_held(engine)
    lost = engine.events_of(ev.RequestPreempted)[0]
    again = engine.events_of(ev.RequestResumed)[0]
    canvas.text(left, 58, "each column is a step of the engine", "muted")
    for step in (1, lost.step, again.step, last):
        canvas.text(left + (step - 0.5) * cell, 78, str(step), "muted mono", "middle")
    for number, name in enumerate(PEOPLE):
        y = top + number * (CELL + 8)
        canvas.name(MARGIN, y + 14.8, name)
        ran = {
            event.step: event.num_tokens
            for event in engine.events_of(ev.StepScheduled)
            if event.seq_id == f"{name}.0"
        }
        for step in range(1, max(ran) + 1):
            x = left + (step - 1) * cell
            if step in ran:
                canvas.cell(x, y, cell, name)
            else:
                canvas.cell(x, y, cell)
        for step, tokens in ran.items():
            if tokens > 1:
                canvas.rect(left + (step - 1) * cell + 3, y + 3, cell - 6, CELL - 6, "bar", 1)
    y = top + len(PEOPLE) * (CELL + 8)
    x = left + (lost.step - 1) * cell
    canvas.arrow([(x + cell / 2, y + 24), (x + cell / 2, y - 4)], "bad")
    canvas.text(x + cell / 2 - 6, y + 24, "preempted", "bad strong", "end")
    x = left + (again.step - 0.5) * cell
    canvas.arrow([(x, y + 24), (x, y - 4)], "good")
    canvas.text(x + 7, y + 24, "resumed", "good strong")
    y = _held_by_step(canvas, y + 46, held, engine.num_blocks, left, cell)
    canvas.rect(MARGIN, y + 13, 10, 14, "bar", 1)
    canvas.text(MARGIN + 18, y + 25, "a whole text is computed: a prefill", "text")
    computed = next(
        e.num_tokens for e in engine.events_of(ev.StepScheduled) if e.step == again.step
    )
    canvas.paragraph(
        MARGIN,
        y + 47,
        f"In step {lost.step} no block is free. {lost.seq_id.partition('.')[0]} came last, so she"
        f" gives up all of hers. In step {again.step} her {computed} tokens are computed again, in"
        " one prefill.",
    )


def _blocks_held(engine: LessonEngine) -> list[dict[str, int]]:
    """For each step, how many blocks each request has while the model runs."""
    rows = []
    for step in range(1, engine.fold.step + 1):
        fold = fold_before_sampling(engine, step)
        tables = {name: fold.sequences.get(f"{name}.0") for name in PEOPLE}
        rows.append({name: len(one.block_table) if one else 0 for name, one in tables.items()})
    return rows


def _held_by_step(
    canvas: Canvas, y: float, held: Seq[dict[str, int]], num_blocks: int, left: float, cell: float
) -> float:
    """A column for each step, as high as the blocks that are held. Returns the y below it."""
    unit = 7
    bottom = y + num_blocks * unit
    canvas.path([(left - 4, y), (WIDTH - MARGIN, y)], "dashed")
    canvas.text(left - 8, y + 5, str(num_blocks), "muted mono", "end")
    canvas.text(left - 8, bottom, "0", "muted mono", "end")
    canvas.text(MARGIN, y + num_blocks * unit / 2 + 4, "blocks", "muted")
    for number, row in enumerate(held):
        base = bottom
        for name, count in row.items():
            if count:
                base -= count * unit
                canvas.rect(left + number * cell, base, cell, count * unit, f"h{hue_of(name)}", 0)
    return bottom
