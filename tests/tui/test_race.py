"""The race at one key: two real runs beside each other, and every figure is that of its events."""

import re
import tempfile
from pathlib import Path

import pytest
from msgspec import structs
from support.tui.driven_app import (
    all_drawn,
    app_for,
    drawn,
    drive,
    settle,
    show_screen,
    told,
    until,
)
from support.tui.memory_recording import context_of, transport_of
from textual.pilot import Pilot
from textual.widgets import Input

from minivllm.configurations import PARTS, parse_configuration
from minivllm.errors import ConfigError
from minivllm.events.kv_usage import KVUsageMeter
from minivllm.events.recording.log import LogWriter
from minivllm.tui.app import DashboardApp
from minivllm.tui.control import Entry
from minivllm.tui.draw.digits import large_digits
from minivllm.tui.draw.lines import text_of
from minivllm.tui.screens.dialogs import RaceScreen
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.state.model import MODELS
from minivllm.tui.time.follow import follow, seconds_at
from minivllm.tui.time.usage import UsageFollower
from minivllm.tui.widgets.compare import figures
from minivllm.tui.widgets.compare.side import Side


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary folders are made here, so a test can see that they are gone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def digits_in(rows: list[str]) -> str:
    """Read large figures back; a gap is a space."""
    glyphs = {"".join(large_digits(digit)): digit for digit in "0123456789.,-"}
    found, x, width = "", 0, max(map(len, rows))
    padded = [row.ljust(width + 3) for row in rows]
    while x < width:
        wide = next(
            (n for n in (3, 1) if "".join(row[x : x + n] for row in padded) in glyphs), None
        )
        if wide is None:
            found, x = found.rstrip(" ") + " ", x + 1
        else:
            found += glyphs["".join(row[x : x + wide] for row in padded)]
            x += wide
    return found.strip()


def test_the_same_second_is_after_all_events_up_to_it(stage, ask, memory_pressure) -> None:
    asks = [ask(f"r{n}", "one two three", "a b c d e f g", arrives=n) for n in range(5)]
    first, second = transport_of(stage(asks).run(), 0), transport_of(memory_pressure.run(20), 0)
    times = [event.t for event in second.recording.all]
    for position in range(len(first.recording) + 1):
        first.to_position(position)
        follow(first, second, "second")
        passed = first.recording.all[position - 1].t - first.recording.all[0].t if position else 0
        assert seconds_at(first) == passed
        assert second.position == sum(t - times[0] <= passed for t in times)
        follow(first, second, "step")
        assert second.view.fold.step == min(first.view.fold.step, 20)


@pytest.mark.parametrize("clock", ["virtual", "monotonic"])
@pytest.mark.parametrize("step", [1, 7, 20, 40, 10**6])
@pytest.mark.parametrize("width, height", [(58, 24), (50, 15), (38, 13)])
def test_what_is_wasted_and_who_waits_is_that_of_the_events(
    step: int, width: int, height: int, clock: str, memory_pressure
) -> None:
    run = memory_pressure.run()
    run.header = structs.replace(run.header, clock=clock)
    context = context_of(run, other=run)
    context.transport.to_step(step)
    context.second.to_step(step)
    meter = KVUsageMeter(run.header)
    for event in run.events[: context.transport.position]:
        meter.apply(event)
    fold = context.transport.view.fold
    usage = KVUsageMeter(run.header, fold).now() if fold.running else meter.samples[-1]
    panel = Side("A", is_second=False)
    panel.context = context
    rows = [text_of(line) for line in panel.lines(context.transport.view, width, height)]
    shown = "\n".join(rows)
    empty = (usage.reserved + usage.internal) / run.header.block_size
    blocks = usage.allocated // run.header.block_size
    assert re.search(rf"wasted[a-z ]*: {empty:,.1f} of {blocks} blocks.*{usage.waste:.0%}", shown)
    names = ", ".join(seq_id.removesuffix(".0") for seq_id in fold.waiting)
    if names:
        assert f"{len(fold.waiting)} wait: {names}" in shown or f"1 waits: {names}" in shown
        # A request that arrived after the last plan has no reason yet.
        is_deferred = fold.sequences[fold.waiting[0]].deferred is not None
        assert (f"{names.partition(',')[0]} is next: " in shown) == is_deferred
    else:
        assert ("nobody waits" if fold.running else "nobody runs or waits") in shown
    if height >= 14:
        is_timed = run.header.clock == "monotonic"
        time = seconds_at(context.transport) if is_timed else fold.step
        speed = f"{fold.counters.generation_tokens / time:.{0 if is_timed else 1}f}"
        large = digits_in([row.replace("%", " ") for row in rows[:3]])
        assert large.split() == [f"{100 * usage.waste:.0f}", speed]


def test_in_ascii_and_with_known_block_sizes_the_figures_are_plain(memory_pressure) -> None:
    run = memory_pressure.run(20)
    usage = KVUsageMeter(run.header)
    for event in run.events:
        usage.apply(event)
    (digits, caption) = figures.large_figures(
        [figures.waste_figure(usage.samples[-1])], 40, ascii=True
    )
    assert re.fullmatch(r"\d+ % *", text_of(digits)) and text_of(digits).isascii()
    assert text_of(caption).strip() == "of allocated memory wasted"
    header = structs.replace(run.header, block_bytes=2**20)
    line = text_of(figures.wasted(usage.samples[-1], header, 100))
    number = re.search(r"wasted: ([\d.]+) of \d+ blocks \(([\d.]+) MiB", line)
    assert float(number[1]) == pytest.approx(float(number[2]), abs=0.06)


def test_the_dialog_names_every_part_of_a_configuration_that_can_race() -> None:
    hint = RaceScreen(Entry())._hint
    # A race runs no model, so it has none for drafts either.
    assert [part for part in PARTS if part not in hint] == ["draft_model"]
    with pytest.raises(ConfigError, match="use minivllm compare"):
        parse_configuration("static+draft_model")


def test_a_side_forgets_the_recording_that_a_race_replaces(memory_pressure, samples) -> None:
    contexts = [context_of(run.run(), other=run) for run in (memory_pressure, samples)]
    follower = UsageFollower()
    for context in (*contexts, *reversed(contexts)):
        for step in (3, 9):
            context.transport.to_step(step)
            expected = UsageFollower().usage_at(context.transport)
            assert follower.usage_at(context.transport) == expected


async def start(pilot: Pilot, *names: str) -> None:
    await pilot.press("R")
    await settle(pilot)
    for field, name in zip(pilot.app.screen.query(Input), names, strict=False):
        field.value = name
    await pilot.press("enter")
    await until(pilot, lambda: pilot.app.context.race is not None)


async def wait_for_the_end(pilot: Pilot) -> None:
    await until(pilot, lambda: pilot.app.context.race.state != "running")
    await settle(pilot)


def test_r_races_two_configurations_and_esc_returns_to_the_run(
    shared_prefix, temporary: Path, no_footer
) -> None:
    app = app_for(shared_prefix.run(), state="paused")
    own = app.context.transport

    async def script(pilot: Pilot) -> None:
        own.to_step(9)
        await start(pilot)
        await wait_for_the_end(pilot)
        assert app.current_mode == "compare" and app.context.same == "second"
        first, second = app.context.transport, app.context.second
        assert own not in (first, second)
        titles = [str(app.dashboard_screen.query_one(f"#side-{x}").border_title) for x in "ab"]
        assert titles == ["A: static+contiguous", "B: continuous+paged"]
        assert seconds_of(first) >= seconds_of(second)
        for step in (5, 40, first.recording.last_step):
            first.to_step(step)
            await both_sides_are_those_of_their_events(pilot)
            await pilot.press("S")
            assert app.context.same == "step"
            await settle(pilot)
            await both_sides_are_those_of_their_events(pilot)
            assert second.view.fold.step == min(step, second.recording.last_step)
            await pilot.press("S")
        await settle(pilot)
        seconds = [round(seconds_of(one), 1) for one in (first, second)]
        assert f"A took {seconds[0]} s, B {seconds[1]} s" in " ".join(drawn(app, "race"))
        assert notes_on_screen(app) == app.context.race.sentence
        await pilot.press("escape")
        await settle(pilot)
        assert app.context.transport is own and own.view.fold.step == 9
        assert app.context.second is None and "step 9" in all_drawn(app)
        await show_screen(pilot, "compare")
        assert app.context.transport is first
        assert len(list(temporary.iterdir())) == 1

    drive(app, script)
    assert list(temporary.iterdir()) == []


def notes_on_screen(app: DashboardApp) -> str:
    return " ".join(" ".join(drawn(app, "race")[1:]).split())


def test_the_notes_name_unfinished_requests_and_fit_every_terminal(
    memory_pressure, temporary: Path, no_footer
) -> None:
    run = memory_pressure.run(20)
    app, head = app_for(run, state="paused"), transport_of(run).view
    silent = [name for name, one in head.fold.requests.items() if not has_token(head, one.seq_ids)]
    unfinished = [name for name in head.fold.requests if name not in silent]
    assert len(unfinished) > 1 and len(silent) > 3  # the screen names or counts them

    async def script(pilot: Pilot) -> None:
        await start(pilot)
        await wait_for_the_end(pilot)
        first, second = app.context.transport, app.context.second
        notes = app.context.race.sentence
        assert f"{', '.join(unfinished)}. Left out" in notes
        assert f"without a token: {len(silent)} requests. No step times" in notes
        first.to_position(len(first.recording))
        for columns, rows in ((80, 24), (120, 36), (200, 50)):
            await pilot.resize_terminal(columns, rows)
            await settle(pilot)
            app.draw()
            await settle(pilot)
            assert notes_on_screen(app) == notes
            top = drawn(app, "race")[0]
            assert "…" not in top and "times as fast" in top.replace("×", " times")
            assert "same step" in top
        for side in (first, second):
            fold = side.view.fold
            assert fold.counters.generation_tokens == head.fold.counters.generation_tokens
            assert not fold.requests and fold.counters.finished_requests == len(
                head.fold.requests
            ) + head.fold.counters.finished_requests - len(silent)

    drive(app, script)


def has_token(model, seq_ids: list[str]) -> bool:
    return any(model.fold.sequences[one].output_token_ids for one in seq_ids)


def seconds_of(transport) -> float:
    recording = transport.recording
    first, last = (next(iter(recording.events(i, i + 1))).t for i in (0, len(recording) - 1))
    return last - first


async def both_sides_are_those_of_their_events(pilot: Pilot) -> None:
    app = pilot.app
    app.draw()
    await settle(pilot)
    for id, transport in (("side-a", app.context.transport), ("side-b", app.context.second)):
        meter = KVUsageMeter(transport.recording.header)
        for event in transport.recording.events(0, transport.position):
            meter.apply(event)
        shown = " ".join("\n".join(drawn(app, id)).split())
        fold = transport.recording.view_at_event(transport.position).fold
        facts = [
            f"step {fold.step}",
            f"{len(fold.running)} run {len(fold.waiting)} wait",
            f"{fold.counters.generation_tokens} tokens",
        ]
        if fold.running or (transport.at_end and meter.samples):
            header = transport.recording.header
            usage = KVUsageMeter(header, fold).now() if fold.running else meter.samples[-1]
            empty = usage.reserved + usage.internal
            facts.append(f": {empty / transport.recording.header.block_size:,.1f} of")
        assert [fact for fact in facts if fact not in shown] == []


def test_a_race_that_cannot_run_or_is_not_wanted_says_so(
    shared_prefix, temporary: Path, no_footer
) -> None:
    app = app_for(shared_prefix.run(30))

    async def says(pilot: Pilot, keys: str, sentence: str) -> None:
        app.clear_notifications()
        await pilot.press(*keys.split())
        await until(pilot, lambda: any(sentence in one for one in told(app)))

    async def script(pilot: Pilot) -> None:
        await says(pilot, "C", "No race is running")
        await says(pilot, "S", "This needs two recordings")
        await app.race_keys.start(Entry("static+buddy"))
        await wait_for_the_end(pilot)
        assert "unknown part 'buddy': use continuous" in told(app)[-1]
        assert "races two configurations" in " ".join(drawn(app, "race"))
        await start(pilot, "static", "continuous")
        await says(pilot, "R", "A race is running")
        assert "cancels" in " ".join(drawn(app, "race"))
        await pilot.press("C")
        await settle(pilot)
        assert "The race was cancelled." in " ".join(drawn(app, "race"))
        await start(pilot)  # and quit while it runs
        assert app.context.race.state == "running"
        processes.append(app.context.race._process)

    processes: list = []
    drive(app, script)
    assert processes[0].poll() is not None
    assert list(temporary.iterdir()) == []


def test_before_the_first_token_there_is_nothing_to_race(stage, ask) -> None:
    app = app_for(stage([ask("r0", "one two", "a b")]))

    async def script(pilot: Pilot) -> None:
        await pilot.press("R")
        await until(pilot, lambda: told(app))
        assert told(app) == ["No request has got a token yet, so there is nothing to race."]

    drive(app, script)


def test_replay_can_start_with_a_race(shared_prefix, temporary: Path, no_footer) -> None:
    run = shared_prefix.run(30)
    with LogWriter(temporary / "log.jsonl", run.header) as writer:
        for event in run.events:
            writer.write(event)
    source = ReplaySource(temporary / "log.jsonl", codec=MODELS)
    app = DashboardApp(source, state="paused", race=Entry("sequential", "continuous"))

    async def script(pilot: Pilot) -> None:
        await wait_for_the_end(pilot)
        assert app.current_mode == "compare" and app.context.race.names.a == "sequential"
        assert app.context.transport.state == "playing"

    drive(app, script, size=(80, 24))
