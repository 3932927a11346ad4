"""Random walks through random runs: the painted screen always equals the fold of the events.

Rows are read back as text and compared with a new fold of all earlier events. Events keep coming
during the walk, so the recording grows.
"""

import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.engine.random_runs import OPTIONS, REQUESTS, run_of
from support.tui.drawn_blocks import expected_cells, ids_of, read_cells
from support.tui.driven_app import app_for, drawn, drive, panel, put, settle, until
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.events.fold import Fold, fold
from minivllm.text import clean, short_name
from minivllm.tui.app import DashboardApp

WALKS = settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""Few examples without shrinking: each one starts an app and paints a dozen moments."""

_MOVES = {"right", "right_square_bracket", "right_curly_bracket"}
_MOVE = st.one_of(
    st.sampled_from(sorted(_MOVES | {key.replace("right", "left") for key in _MOVES})),
    st.sampled_from(["home", "end", "1", "2", "space"]),
    st.integers(0, 90),  # go to that step
    st.floats(0, 1),  # go to that fraction of the events so far
    st.tuples(st.integers(1, 200)),  # this many more events arrive
)


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
            for _ in range(min(count, len(waiting))):
                put(app, waiting.pop(0))
    await settle(pilot)
    # New events are applied, and a playing picture takes its next step.
    app._frame()
    if app.context.transport.state == "playing":
        await pilot.press("space")
    await settle(pilot)
    # A new front screen is drawn once it has its sizes.
    await until(
        pilot, lambda: f"event {app.context.transport.position:,}/" in drawn(app, "timeline")[0]
    )


def check_the_picture(app: DashboardApp, events: list) -> None:
    transport = app.context.transport
    truth = fold(app.model.header, events[: transport.position])
    assert app.model.fold.state == truth.state
    check_the_header(app, truth)
    if app.current_mode == "overview":
        check_the_slots(app, truth, events[: transport.position])
        check_the_queue(app, truth)
        check_the_budget(app, truth)
        check_the_map(app, truth, "blockmap")
        check_the_free_queue(app, truth, "freequeue")
    else:
        check_the_map(app, truth, "blocks-map")
        check_the_free_queue(app, truth, "blocks-queue")


def check_the_header(app: DashboardApp, truth: Fold) -> None:
    text = drawn(app, "header")[0]
    # Not blocks with an owner: between `block.released` and `block.freed` a block has no owner and
    # is not in the queue. That lasts one event, and the block counts as used.
    used = len(truth.blocks) - len(truth.free_queue)
    cached = sum(truth.blocks[number].hash is not None for number in truth.free_queue)
    facts = (
        f"step {truth.step:,} ",
        f" {used:,} used {cached:,} cached {len(truth.blocks) - used - cached:,} empty ",
        f" {truth.counters.num_preemptions:,} preempted ",
        f" {truth.counters.evicted_blocks:,} evicted ",
    )
    assert [fact for fact in facts if fact not in text] == []


_SLOT = re.compile(
    r" *(\d+) (\S) (\S+) +(?:↺(\d+))? *(PREFILL|DECODE) +(\S+) +blocks (.*?)(?:   *prompt .*)?$"
)


def check_the_slots(app: DashboardApp, truth: Fold, events: list) -> None:
    of_this_step = [one for one in events if one.step == truth.step]
    rows = drawn(app, "slots")
    by_slot = {truth.sequences[seq_id].slot: seq_id for seq_id in truth.running}
    kinds = {item.seq_id: item.kind for item in truth.scheduled}
    assert len(rows) == 2 * truth.max_num_seqs
    letters = set()
    for slot in range(truth.max_num_seqs):
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
        new = any(isinstance(one, ev.TokenSampled) and one.seq_id == seq_id for one in of_this_step)
        done = f"{sequence.num_computed_tokens}/{sequence.num_tokens - new}"
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
    rows = [row.rstrip() for row in drawn(app, "waiting") if row.strip()]
    assert panel(app, "waiting").border_title == f"Waiting  {len(truth.waiting)}"
    if not truth.waiting:
        assert rows == ["none waiting"]
        return
    shown = [row for row in rows if not row.startswith("+ ")]
    if len(shown) < len(truth.waiting):
        assert rows[-1] == f"+ {len(truth.waiting) - len(shown)} more behind"
    before = None
    for row, seq_id in zip(shown, truth.waiting, strict=False):
        sequence = truth.sequences[seq_id]
        _, name, tokens, preemptions, reason = _WAITING.match(row).groups()
        assert (name, int(tokens)) == (short_name(seq_id), sequence.num_tokens)
        assert int(preemptions or 0) == sequence.num_preemptions
        assert reason == (
            f"behind {short_name(before)}" if before else reason_in_words(truth, sequence)
        )
        before = seq_id


def reason_in_words(truth: Fold, sequence) -> str:
    """The expected reason why the first request waits."""
    if sequence.deferred is None:
        return "new"
    reason, need, free = sequence.deferred
    unit = {"no_blocks": "block", "max_num_seqs": "slot"}.get(reason)
    if reason == "max_num_seqs" and len(truth.running) + need <= truth.max_num_seqs:
        return "a slot is free now: next step"
    if reason == "max_num_seqs" and not free:
        return f"all {truth.max_num_seqs} slots taken"
    if reason == "token_budget" and free:
        return f"needs {need} token{'s' if need > 1 else ''}, {free} of the budget left"
    if unit is not None:
        return f"needs {need} {unit}{'s' if need > 1 else ''}, {free} free"
    return {
        "token_budget": "token budget used",
        "preempted_this_step": "preemption this step",
    }[reason]


def check_the_budget(app: DashboardApp, truth: Fold) -> None:
    budget = truth.budget or app.model.header.max_num_batched_tokens
    sums = {
        kind: sum(one.num_tokens for one in truth.scheduled if one.kind == kind)
        for kind in ("decode", "prefill")
    }
    used = sum(sums.values())
    rows = [row.rstrip() for row in drawn(app, "budget")]
    assert panel(app, "budget").border_title == f"Token budget  {used} of {budget}"
    assert rows[1] == f"decode {sums['decode']}  prefill {sums['prefill']}  unused {budget - used}"
    parts = [(app.model.letter(one.seq_id) or "?") * one.num_tokens for one in truth.scheduled]
    assert rows[0] == "".join(parts) + "·" * (budget - used), (
        "a cell a token, in the order of the plan"
    )
    shares = {re.split(r"\s+", row)[1]: row for row in rows[4:] if row}
    for one in truth.scheduled:
        if (row := shares.get(short_name(one.seq_id))) is not None:
            assert re.search(rf" {one.kind} +{one.num_tokens} ", row)
            assert re.search(rf"positions? {one.num_computed_tokens}\b", row)
    assert len(shares) == min(len(truth.scheduled), len(rows) - 4)


def check_the_map(app: DashboardApp, truth: Fold, id: str) -> None:
    shown = panel(app, id)
    lines = [((row.rstrip(), ""),) for row in drawn(app, id)]
    width, height = shown.content_size
    assert read_cells(lines, len(truth.blocks), width, height) == expected_cells(app.model)


def check_the_free_queue(app: DashboardApp, truth: Fold, id: str) -> None:
    text, _, more = " ".join(" ".join(drawn(app, id)).split()).partition(" + ")
    if not truth.free_queue:
        assert text == "no block is free"
        return
    items = text.removeprefix("next ").split()
    queue = list(truth.free_queue)
    assert [int(re.sub(r"\D", "", item)) for item in items] == queue[: len(items)]
    assert ["░" in item for item in items] == [
        truth.blocks[number].hash is not None for number in queue[: len(items)]
    ]
    assert more == (f"{len(queue) - len(items)} more" if len(items) < len(queue) else "")


@WALKS
@given(REQUESTS, OPTIONS, st.floats(0.1, 0.9), st.lists(_MOVE, min_size=6, max_size=14))
def test_the_painted_screen_equals_the_fold_during_any_walk(
    stage, ask, no_footer, requests: list, options: dict, had: float, walk: list
) -> None:
    run = run_of(stage, ask, requests, options)
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


@pytest.mark.parametrize("scenario", ["memory_pressure", "samples"])
def test_the_painted_screen_equals_the_fold_at_the_end_of_many_steps(
    scenario: str, request: pytest.FixtureRequest, no_footer
) -> None:
    """Covers chunked prefills, resumed sequences and samples, which a random walk may not meet."""
    run = request.getfixturevalue(scenario).run(80)
    app = app_for(run)

    async def script(pilot: Pilot) -> None:
        for step in range(1, 81, 2):
            app.context.transport.to_step(step)
            app.draw()
            await settle(pilot)
            check_the_picture(app, run.events)

    drive(app, script, (200, 60))
