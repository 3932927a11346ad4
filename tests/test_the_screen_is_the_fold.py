"""The promise: at any moment of any run, the painted screen equals a fold of all events before it.

Each example is a random run of the real scheduler: prompts that share prefixes, samples,
preemptions, evictions and waits. The real dashboard gets its events, the last of them while it
runs, and keys walk through them: back and forth, to a step, to the end. After every move, the
rows on the screen are read back as text. They must say what a new fold of the same events says.

The checks read only the fold, and share no code with the panels.
"""

import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.engine.random_runs import OPTIONS, REQUESTS, run_of
from support.tui.drawn_blocks import cells_of, expected_cells, ids_of
from support.tui.driven_app import app_for, drawn, drive, panel, put, settle, until
from support.tui.stages import Ask, Stage, memory_pressure, samples  # noqa: F401
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.events.fold import Fold, fold
from minivllm.text import clean, short_name
from minivllm.tui.app import DashboardApp

FEW_WALKS = settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""Each walk starts an app and paints a dozen moments, so walks are not shrunk."""

KEYS = ["right", "right_square_bracket", "right_curly_bracket"]
"""Keys that go forward by a step, by an event, and to the next preemption or eviction."""
MOVES = st.one_of(
    st.sampled_from([*KEYS, *(key.replace("right", "left") for key in KEYS)]),
    st.sampled_from(["home", "end", "1", "2", "space"]),  # 1, 2: the Overview, the Blocks screen
    st.integers(0, 90),  # go to that step
    st.floats(0, 1),  # go to that fraction of the events so far
    st.tuples(st.integers(1, 200)),  # this many more events arrive
)
WALKS = st.lists(MOVES, min_size=6, max_size=14)


def walk_through(requests: list, options: dict, had: float, walk: list) -> None:
    """Compare the screen with the fold before a walk, after each of its moves, and at the end.

    had: the part of the events that the dashboard has when it starts
    """
    run = run_of(Stage, Ask, requests, options)
    events = list(run.events)
    waiting = events[int(had * len(events)) :]
    run.events = events[: len(events) - len(waiting)]
    app = app_for(run)

    async def script(pilot: Pilot) -> None:
        check_the_picture(app, events)
        for move in walk:
            await go(pilot, move, waiting)
            check_the_picture(app, events)
        await pilot.press("end", "1")
        await go(pilot, (len(waiting),), waiting)
        assert app.context.transport.position == len(events)
        check_the_picture(app, events)

    drive(app, script, (200, 60))


@FEW_WALKS
@given(REQUESTS, OPTIONS, st.floats(0.1, 0.9), WALKS)
def test_the_painted_screen_equals_the_fold_during_any_walk(requests, options, had, walk) -> None:
    walk_through(requests, options, had, walk)


@pytest.mark.parametrize("scenario", ["memory_pressure", "samples"])
def test_the_painted_screen_equals_the_fold_after_preemptions_and_forks(scenario, request) -> None:
    """Two runs in which these certainly happen; a random walk may not meet them."""
    run = request.getfixturevalue(scenario).run(80)
    app = app_for(run)

    async def script(pilot: Pilot) -> None:
        for step in range(1, 81, 4):
            app.context.transport.to_step(step)
            app.draw()
            await settle(pilot)
            check_the_picture(app, run.events)

    drive(app, script, (200, 60))


async def go(pilot: Pilot, move: str | int | float | tuple[int], waiting: list) -> None:
    app = pilot.app
    match move:
        case str():
            await pilot.press(move)
        case int():
            await pilot.press("g", *str(move), "enter")
        case float():
            app.context.transport.to_position(int(move * len(app.context.transport.recording)))
            app.draw()
        case (count,):
            put(app, *waiting[:count])
            del waiting[:count]
    await settle(pilot)
    # New events are applied, and a playing picture takes its next step.
    app._frame()
    if app.context.transport.state == "playing":
        await pilot.press("space")
    await settle(pilot)
    # A new front screen is drawn once it has its sizes.
    last = app.context.transport.position - 1
    await until(pilot, lambda: f"event {last:,}/".replace("-1", "–") in drawn(app, "timeline")[0])


# ---- one picture ----


def check_the_picture(app: DashboardApp, events: list) -> None:
    events = events[: app.context.transport.position]
    truth = fold(app.model.header, events)
    assert app.model.fold.state == truth.state
    check_the_header(app, truth)
    if app.current_mode == "overview":
        check_the_slots(app, truth, events)
        check_the_queue(app, truth)
        check_the_budget(app, truth)
        check_the_map(app, truth, "blockmap")
        check_the_free_queue(app, truth, "freequeue")
    else:
        check_the_map(app, truth, "blocks-map")
        check_the_free_queue(app, truth, "blocks-queue")
        check_the_cards(app, truth)


def check_the_header(app: DashboardApp, truth: Fold) -> None:
    text = drawn(app, "header")[0]
    # Not blocks with an owner: between `block.released` and `block.freed` a block has no owner and
    # is not in the queue. That lasts a few events, and the block counts as used.
    used = len(truth.blocks) - len(truth.free_queue)
    cached = sum(truth.blocks[number].hash is not None for number in truth.free_queue)
    counters = truth.counters
    hits = counters.prefix_cache_hits / max(counters.prefix_cache_queries, 1)
    facts = (
        f"step {truth.step:,} ",
        f" hits {hits:.0%} " if counters.prefix_cache_queries else " ",
        f" {used:,} used {cached:,} cached {len(truth.blocks) - used - cached:,} empty ",
        f" {counters.num_preemptions:,} preempted ",
        f" {counters.evicted_blocks:,} evicted ",
    )
    assert [fact for fact in facts if fact not in text] == []


_SLOT = re.compile(
    r" *(\d+) (\S) (\S+) +(?:↺(\d+))? *(PREFILL|DECODE) +(\S+) +blocks (.*?)(?:   *prompt .*)?$"
)


def check_the_slots(app: DashboardApp, truth: Fold, events: list) -> None:
    """Two rows for each slot up to the last one in use, and some of the free ones behind it: the
    sequence with progress and blocks, and the end of its text.
    """
    rows = drawn(app, "slots")
    by_slot = {truth.sequences[seq_id].slot: seq_id for seq_id in truth.running}
    kinds = {item.seq_id: item.kind for item in truth.scheduled}
    sampled = {e.seq_id for e in events if e.step == truth.step and isinstance(e, ev.TokenSampled)}
    num_drawn = len(rows) // 2
    assert max(by_slot, default=0) < num_drawn <= truth.max_num_seqs and len(rows) % 2 == 0
    letters = set()
    for slot in range(num_drawn):
        row, text = rows[2 * slot].rstrip(), rows[2 * slot + 1].strip()
        seq_id = by_slot.get(slot)
        if seq_id is None:
            assert row.split() == [str(slot), "·", "free"] and not text
            continue
        sequence = truth.sequences[seq_id]
        number, letter, name, preemptions, phase, count, blocks = _SLOT.match(row).groups()
        assert (int(number), name) == (slot, short_name(seq_id))
        assert int(preemptions or 0) == sequence.num_preemptions
        known_before = sequence.num_computed_tokens < sequence.num_tokens - 1
        is_prefill = kinds.get(seq_id, "prefill" if known_before else "decode") == "prefill"
        assert phase == ("PREFILL" if is_prefill else "DECODE")
        # A token sampled in this very step is not part of the step's work.
        done = f"{sequence.num_computed_tokens}/{sequence.num_tokens - (seq_id in sampled)}"
        assert count == (done if is_prefill else f"+{len(sequence.output_token_ids)}")
        assert ids_of(blocks) == sequence.block_table
        assert clean(sequence.text).strip().endswith(text.removeprefix("…"))
        assert bool(text) == bool(sequence.text)
        assert letter == app.model.letter(seq_id)
        letters.add(letter)
    assert len(letters) == len(by_slot), "two sequences never have one letter"
    title = f"Batch slots  {len(truth.running)} of {truth.max_num_seqs}"
    assert panel(app, "slots").border_title == title


_WAITING = re.compile(r"(\S| ) (\S+) +([\d,]+) tok  (?:↺(\d+) preempted, )?(.*)$")


def check_the_queue(app: DashboardApp, truth: Fold) -> None:
    """A row for each waiting sequence, in order; the first has the scheduler's reason."""
    rows = [row.rstrip() for row in drawn(app, "waiting") if row.strip()]
    assert panel(app, "waiting").border_title == f"Waiting  {len(truth.waiting)}"
    if not truth.waiting:
        assert rows == ["none waiting"]
        return
    shown = [row for row in rows if not row.startswith("+ ")]
    if len(shown) < len(truth.waiting):
        assert rows[-1] == f"+ {len(truth.waiting) - len(shown)} more behind"
    for row, seq_id, before in zip(shown, truth.waiting, [None, *truth.waiting], strict=False):
        sequence = truth.sequences[seq_id]
        _, name, tokens, preemptions, reason = _WAITING.match(row).groups()
        assert (name, int(tokens)) == (short_name(seq_id), sequence.num_tokens)
        assert int(preemptions or 0) == sequence.num_preemptions
        behind = before and f"behind {short_name(before)}"
        assert reason == (behind or reason_in_words(truth, sequence.deferred))


def reason_in_words(truth: Fold, deferred: tuple | None) -> str:
    """The expected reason why the first request waits."""
    match deferred:
        case None:
            return "new"
        case "max_num_seqs", need, _ if len(truth.running) + need <= truth.max_num_seqs:
            return "a slot is free now: next step"
        case "max_num_seqs", _, 0:
            return f"all {truth.max_num_seqs} slots taken"
        case "max_num_seqs", need, free:
            return f"needs {need} slot{'s' * (need > 1)}, {free} free"
        case "no_blocks", need, free:
            return f"needs {need} block{'s' * (need > 1)}, {free} free"
        case "token_budget", need, free if free:
            return f"needs {need} token{'s' * (need > 1)}, {free} of the budget left"
    return {"token_budget": "token budget used", "preempted_this_step": "preemption this step"}[
        deferred[0]
    ]


def check_the_budget(app: DashboardApp, truth: Fold) -> None:
    """A bar with a cell for each token of the step, in the order of the plan, and the shares."""
    budget = truth.budget or app.model.header.max_num_batched_tokens
    decode, prefill = (
        sum(item.num_tokens for item in truth.scheduled if item.kind == kind)
        for kind in ("decode", "prefill")
    )
    unused = budget - decode - prefill
    rows = [row.rstrip() for row in drawn(app, "budget")]
    assert panel(app, "budget").border_title == f"Token budget  {decode + prefill} of {budget}"
    cells = [(app.model.letter(item.seq_id) or "?") * item.num_tokens for item in truth.scheduled]
    assert rows[0] == "".join(cells) + "·" * unused
    assert rows[1] == f"decode {decode}  prefill {prefill}  unused {unused}"
    shares = {re.split(r"\s+", row)[1]: row for row in rows[4:] if row}
    for item in truth.scheduled:
        if (row := shares.get(short_name(item.seq_id))) is not None:
            first, last = item.num_computed_tokens, item.num_computed_tokens + item.num_tokens - 1
            where = f"position {first}" if first == last else f"positions {first} to {last}"
            assert re.search(rf" {item.kind} {item.num_tokens}, {where}$", row)
    assert len(shares) == min(len(truth.scheduled), len(rows) - 4)


def check_the_map(app: DashboardApp, truth: Fold, id: str) -> None:
    """A cell for each block, with its fill and its owner."""
    lines = [((row.rstrip(), ""),) for row in drawn(app, id)]
    shown = panel(app, id)
    grid, _ = shown._lay_out(app.model, shown.content_size.width, shown.content_size.height - 1)
    assert cells_of(lines, len(truth.blocks), grid) == expected_cells(app.model)


def check_the_free_queue(app: DashboardApp, truth: Fold, id: str) -> None:
    """The free blocks in the order in which they will be taken; ░ marks those still cached."""
    text, _, more = " ".join(" ".join(drawn(app, id)).split()).partition(" + ")
    if not truth.free_queue:
        assert text == "no block is free"
        return
    items, queue = text.removeprefix("next ").split(), list(truth.free_queue)
    for item, block_id in zip(items, queue, strict=False):
        assert int(re.sub(r"\D", "", item)) == block_id
        assert ("░" in item) == (truth.blocks[block_id].hash is not None)
    assert more == (f"{len(queue) - len(items)} more" if len(items) < len(queue) else "")


_CARD = re.compile(r"(?:▌+|░)(\d+) (\w*)( cached)?")


def check_the_cards(app: DashboardApp, truth: Fold) -> None:
    """Each card names a block that holds text, and its owners; a free block is cached."""
    owners = {block_id: "" for block_id in truth.free_queue if truth.blocks[block_id].hash}
    with_text, size = set(owners), app.model.header.block_size
    for seq_id, sequence in truth.sequences.items():
        with_text.update(sequence.block_table[: -(-sequence.num_computed_tokens // size)])
        for block_id in sequence.block_table:
            owners[block_id] = owners.get(block_id, "") + app.model.letter(seq_id)
    cards = _CARD.findall(" ".join(drawn(app, "blocks-cards")))
    shown = [int(number) for number, _, _ in cards]
    assert shown == sorted(with_text.intersection(shown)) and bool(shown) == bool(with_text)
    for number, letters, cached in cards:
        assert letters == owners[int(number)]
        assert bool(cached) == (not letters)
