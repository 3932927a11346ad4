"""Every command of the table by its keys, in the real app: it does what its help says.

`CHECKS` holds one check for each command; a command without one fails a test. Checks of one group share an app, which is
brought back to the same moment before each: paused at the end of a step in the middle of a run with preemptions.
"""

import re
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from driven_app import (
    SCREENS,
    all_drawn,
    app_for,
    drawn,
    drive,
    panel,
    settle,
    show_screen,
    source_of,
    told,
    until,
    visible,
)
from fake_control import FakeControl
from textual.pilot import Pilot
from textual.widgets import Input
from textual.widgets._footer import FooterKey

from minivllm.events.event_index import NOTABLE_KINDS
from minivllm.events.fold import fold
from minivllm.tui.app import DashboardApp
from minivllm.tui.commands import COMMANDS, Command
from minivllm.tui.diff import difference
from minivllm.tui.screens.dialogs import AskScreen, TextScreen
from minivllm.tui.screens.help import HelpScreen, keys_now
from minivllm.tui.selection import Target, block, event, sequence, step
from minivllm.tui.theme import DARK, LIGHT
from minivllm.tui.why import why

MIDDLE = 20
"""The step at whose end a check begins."""


@dataclass
class Seat:
    """Where a person sits: the app, and what is known about the run without it."""

    pilot: Pilot
    stage: object
    control: FakeControl | None
    steps: list[int] = field(default_factory=list)
    """Of each event."""

    def __post_init__(self) -> None:
        self.steps = [one.step for one in self.stage.events]

    @property
    def app(self) -> DashboardApp:
        return self.pilot.app

    @property
    def transport(self):
        return self.app.context.transport

    async def sit_down(self) -> None:
        """The same beginning for every check."""
        app = self.app
        while len(app.screen_stack) > 1:
            app.pop_screen()
        await settle(self.pilot)
        await app._go("overview")
        app.clear_notifications()
        app._visited.clear()
        app.context.selection.clear()
        app.context.event_filter = ""
        self.transport.marks.clear()
        self.transport.speed = 1.0
        if app.screen.maximized is not None:
            app.screen.minimize()
        app.set_focus(panel(app, "slots"))
        if self.control is not None:
            self.control.calls.clear()
        await self.stand_at(self.end_of(MIDDLE))

    async def stand_at(self, position: int) -> None:
        self.transport.to_position(position)
        self.app.draw()
        await settle(self.pilot)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await settle(self.pilot)

    async def answer(self, text: str) -> None:
        """Write into the window that asks, and press enter."""
        assert isinstance(self.app.screen, AskScreen)
        self.app.screen.query_one(Input).value = text
        await self.press("enter")

    async def choose(self, *targets: Target) -> None:
        for target in targets:
            self.app.context.selection.choose(target)
        self.app.draw()
        await settle(self.pilot)

    def end_of(self, step: int) -> int:
        """The number of events up to the end of a step."""
        return bisect_right(self.steps, step)

    def stops(self) -> list[int]:
        """Positions just after a notable event; of neighbours of one kind in one step only the first."""
        found, last = [], None
        for number, one in enumerate(self.stage.events):
            if type(one) in NOTABLE_KINDS:
                if last != (one.step, type(one)):
                    found.append(number + 1)
                last = one.step, type(one)
        return found

    def stands_at(self, position: int, state: str = "paused") -> None:
        """The picture is that of the fold of so many events, and says so."""
        assert (self.transport.position, self.transport.state) == (position, state)
        truth = fold(self.stage.header, self.stage.events[:position])
        assert self.app.model.fold.state == truth.state
        assert f"step {truth.step:,}" in drawn(self.app, "header")[0]
        assert f"event {position:,}/{len(self.steps):,}" in drawn(self.app, "timeline")[0]
        badge = {"paused": "PAUSED", "live": "LIVE", "playing": "▶"}[state]
        assert badge in drawn(self.app, "header")[0]

    def window_text(self) -> str:
        """All that stands in the window in front, also what must be scrolled to."""
        texts = self.app.screen.query("Static")
        rows = [row.text.rstrip() for one in texts for row in one.render_lines(one.size.region)]
        return "\n".join(rows)


Check = Callable[[Seat, str], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def of_command(command_id: str) -> Callable[[Check], Check]:
    def note(check: Check) -> Check:
        CHECKS[command_id] = check
        return check

    return note


# ---- time ----


@of_command("time.toggle")
async def pause_or_play(seat: Seat, key: str) -> None:
    await seat.press(key)
    here = seat.end_of(MIDDLE)
    await until(seat.pilot, lambda: seat.transport.position > here)
    assert seat.transport.state == "playing" and "▶ 1×" in drawn(seat.app, "header")[0]
    await seat.press(key)
    held = seat.transport.position
    assert held in {seat.end_of(number) for number in range(MIDDLE, MIDDLE + 60)}
    await seat.pilot.pause(0.2)
    seat.stands_at(held)
    seat.transport.to_live()
    await seat.press(key)
    seat.stands_at(len(seat.steps))


@of_command("time.step_back")
async def to_the_end_of_the_step_before(seat: Seat, key: str) -> None:
    await seat.press(key)
    seat.stands_at(seat.end_of(MIDDLE - 1))
    await seat.stand_at(seat.end_of(MIDDLE) - 3)
    await seat.press(key)
    seat.stands_at(seat.end_of(MIDDLE - 1))
    await seat.stand_at(0)
    await seat.press(key)
    seat.stands_at(0)


@of_command("time.step")
async def to_the_end_of_the_next_step(seat: Seat, key: str) -> None:
    await seat.press(key)
    seat.stands_at(seat.end_of(MIDDLE + 1))
    await seat.stand_at(seat.end_of(MIDDLE) - 3)
    await seat.press(key)
    seat.stands_at(seat.end_of(MIDDLE))
    await seat.stand_at(len(seat.steps))
    await seat.press(key)
    seat.stands_at(len(seat.steps))


@of_command("time.event_back")
async def one_event_back(seat: Seat, key: str) -> None:
    await seat.press(key, key)
    seat.stands_at(seat.end_of(MIDDLE) - 2)
    await seat.stand_at(0)
    await seat.press(key)
    seat.stands_at(0)


@of_command("time.event")
async def one_event_forward(seat: Seat, key: str) -> None:
    await seat.press(key, key)
    seat.stands_at(seat.end_of(MIDDLE) + 2)
    last = seat.stage.events[seat.end_of(MIDDLE) + 1]
    assert last.__struct_config__.tag in drawn(seat.app, "timeline")[0]
    await seat.stand_at(len(seat.steps))
    await seat.press(key)
    seat.stands_at(len(seat.steps))


@of_command("time.notable_back")
async def to_the_notable_event_before(seat: Seat, key: str) -> None:
    stops = seat.stops()
    await seat.stand_at(stops[-1])
    for stop in stops[-2:-5:-1]:
        await seat.press(key)
        seat.stands_at(stop)
    await seat.stand_at(stops[0])
    await seat.press(key)
    seat.stands_at(0)


@of_command("time.notable")
async def to_the_next_notable_event(seat: Seat, key: str) -> None:
    here = seat.end_of(MIDDLE)
    for stop in [stop for stop in seat.stops() if stop > here][:3]:
        await seat.press(key)
        seat.stands_at(stop)
    await seat.stand_at(seat.stops()[-1])
    await seat.press(key)
    seat.stands_at(len(seat.steps))


@of_command("time.start")
async def to_the_first_event(seat: Seat, key: str) -> None:
    await seat.press(key)
    seat.stands_at(0)


@of_command("time.live")
async def to_the_newest_event(seat: Seat, key: str) -> None:
    await seat.press(key)
    seat.stands_at(len(seat.steps), "live")


@of_command("time.faster")
async def plays_twice_as_fast(seat: Seat, key: str) -> None:
    for speed in ("2×", "4×", "8×", "16×", "16×"):
        await seat.press(key)
        assert f"  {speed}" in drawn(seat.app, "timeline")[0]
        assert f"{seat.transport.speed:g}×" == speed
    assert seat.transport.state == "paused"


@of_command("time.slower")
async def plays_half_as_fast(seat: Seat, key: str) -> None:
    for speed in ("0.5×", "0.25×", "0.25×"):
        await seat.press(key)
        assert f"  {speed}" in drawn(seat.app, "timeline")[0]
        assert f"{seat.transport.speed:g}×" == speed


@of_command("time.goto")
async def to_a_step_a_request_or_a_block(seat: Seat, key: str) -> None:
    await seat.press(key)
    await seat.answer("7")
    seat.stands_at(seat.end_of(7))
    await seat.press(key)
    await seat.answer("987654321")
    seat.stands_at(len(seat.steps))
    await seat.press(key)
    await seat.answer("r5")
    arrival = next(n for n, one in enumerate(seat.stage.events) if getattr(one, "request_id", None) == "r5")
    assert seat.app.current_mode == "requests"
    seat.stands_at(arrival + 1)
    assert seat.app.context.selection.seq_id == "r5.0" and "r5" in "\n".join(drawn(seat.app, "request-detail"))
    await seat.press(key)
    await seat.answer("b9")
    assert (seat.app.current_mode, seat.app.context.selection.block_id) == ("blocks", 9)
    assert drawn(seat.app, "blocks-inspector")[0].split()[:2] == ["block", "9"]
    seat.stands_at(arrival + 1)
    for nonsense in ("b24", "b", "nobody", "-3", "[bold]x", "9" * 5000, "b" + "9" * 5000, "b²", "²", "³5"):
        await seat.press(key)
        await seat.answer(nonsense)
        assert told(seat.app)[-1].startswith("There is no step, request or block called ")
        assert len(told(seat.app)[-1]) < 200
        seat.stands_at(arrival + 1)
    await seat.press(key, "1", "escape")
    seat.stands_at(arrival + 1)
    assert seat.app.current_mode == "blocks" and len(seat.app.screen_stack) == 1


@of_command("time.mark")
async def remembers_this_moment(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert told(seat.app) == [f"Mark m1 is at step {MIDDLE}."]
    assert "1 mark" in drawn(seat.app, "timeline")[0]
    await seat.press("right", key)
    assert "2 marks" in drawn(seat.app, "timeline")[0]
    assert [mark.position for mark in seat.transport.marks] == [seat.end_of(MIDDLE), seat.end_of(MIDDLE + 1)]


@of_command("time.previous_mark")
async def back_to_the_last_mark_before_here(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert told(seat.app) == ["There is no mark yet: m sets one."]
    await seat.press("m", "right", "m", "right", key)
    seat.stands_at(seat.end_of(MIDDLE + 1))
    await seat.press(key)
    seat.stands_at(seat.end_of(MIDDLE))
    await seat.press(key)  # around: there is none before, so the last of all
    seat.stands_at(seat.end_of(MIDDLE + 1))


@of_command("time.diff")
async def shows_what_changed_between_two_marks(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert told(seat.app) == ["Set a mark first (m), go elsewhere, and press D again."]
    await seat.press("m", "right", "right", key)
    two = [seat.transport.recording.view_at_event(seat.end_of(step)) for step in (MIDDLE, MIDDLE + 2)]
    said = " ".join(seat.window_text().split())
    assert isinstance(seat.app.screen, TextScreen)
    assert said == " ".join("\n".join(difference(*two)).split()) and "2 steps" in said
    await seat.press("escape")
    assert len(seat.app.screen_stack) == 1


# ---- screens ----


async def shows_the_screen(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app.current_mode == SCREENS[int(key) - 1]
    assert f"step {MIDDLE}" in all_drawn(seat.app)
    shown = visible(seat.app)
    filled = [one for one in shown if one.content_size.height and one.id != "watch"]  # a folded one is only its title
    assert len(filled) >= 4 and all("\n".join(drawn(seat.app, one.id)).strip() for one in filled)


for _name in SCREENS:
    CHECKS[f"screen.{_name}"] = shows_the_screen


# ---- looking ----


async def _goes_round(seat: Seat, key: str, order: list[str]) -> None:
    assert not {"header", "watch", "timeline", "summary"} & set(order), "there is nothing to choose in them"
    seen = []
    for _ in order:
        await seat.press(key)
        seen.append(seat.app.focused.id)
    assert seen == order


@of_command("look.next_panel")
async def gives_the_next_panel_the_focus(seat: Seat, key: str) -> None:
    ids = [one.id for one in visible(seat.app) if one.focusable]
    seat.app.set_focus(None)
    await _goes_round(seat, key, ["slots"])
    at = ids.index("slots") + 1
    await _goes_round(seat, key, ids[at:] + ids[:at])


@of_command("look.previous_panel")
async def gives_the_panel_before_the_focus(seat: Seat, key: str) -> None:
    ids = [one.id for one in visible(seat.app) if one.focusable]
    at = ids.index("slots")
    await _goes_round(seat, key, [*reversed(ids[:at]), *reversed(ids[at:])])


async def _moves_the_cursor(seat: Seat, key: str, by: int) -> None:
    seat.app.set_focus(panel(seat.app, "blockmap"))
    last = len(seat.app.model.fold.blocks) - 1
    expected = 0 if by > 0 else last
    for _ in range(2):
        await seat.press(key)
        assert seat.app.context.selection.last == block(expected)
        expected = min(max(expected + by, 0), last)
    seat.app.set_focus(panel(seat.app, "slots"))
    running = sorted(seat.app.model.fold.running, key=lambda seq_id: seat.app.model.fold.sequences[seq_id].slot)
    await seat.press(key)
    assert seat.app.context.selection.last == sequence(running[0 if by > 0 else -1])
    row = next(row for row in panel(seat.app, "slots")._lines if any("!@" in style for _, style in row))
    assert running[0 if by > 0 else -1].removesuffix(".0") in "".join(text for text, _ in row)


@of_command("look.down")
async def chooses_the_next_thing(seat: Seat, key: str) -> None:
    await _moves_the_cursor(seat, key, 1)


@of_command("look.up")
async def chooses_the_thing_before(seat: Seat, key: str) -> None:
    await _moves_the_cursor(seat, key, -1)


@of_command("look.page_down")
async def chooses_twelve_things_further(seat: Seat, key: str) -> None:
    await _moves_the_cursor(seat, key, 12)


@of_command("look.page_up")
async def chooses_twelve_things_back(seat: Seat, key: str) -> None:
    await _moves_the_cursor(seat, key, -12)


@of_command("look.open")
async def shows_what_is_chosen_on_its_own_screen(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app.current_mode == "overview", "nothing is chosen"
    running = seat.app.model.fold.running[0]
    for target, screen in (
        (block(3), "blocks"),
        (sequence(running), "requests"),
        (step(MIDDLE - 2), "scheduler"),
        (event(40), "events"),
    ):
        await seat.choose(target)
        await seat.press(key)
        assert seat.app.current_mode == screen
    seat.stands_at(41)


@of_command("look.back")
async def goes_back_and_then_chooses_nothing(seat: Seat, key: str) -> None:
    await seat.choose(block(3))
    await seat.press("2", "3", "tab", "z")
    assert seat.app.screen.maximized is not None
    await seat.press(key)
    assert seat.app.screen.maximized is None and seat.app.current_mode == "scheduler"
    await seat.press(key)
    assert seat.app.current_mode == "blocks"
    await seat.press(key)
    assert seat.app.current_mode == "overview" and seat.app.context.selection.last == block(3)
    await seat.press(key)
    assert seat.app.context.selection.last is None


@of_command("look.why")
async def says_why(seat: Seat, key: str) -> None:
    await seat.press(key)
    said = told(seat.app)
    for target in (sequence(seat.app.model.fold.waiting[0]), block(0), step(MIDDLE)):
        await seat.choose(target)
        await seat.press(key)
        assert told(seat.app) == [why(seat.app.model, seat.app.context.selection)]
        said += told(seat.app)
    # Of the moment itself the most interesting fact is who waits.
    assert said[0] == said[1] and len(set(said)) == 3
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in said)


@of_command("look.source")
async def shows_the_line_that_decided(seat: Seat, key: str) -> None:
    number = next(n for n, one in enumerate(seat.stage.events) if one.__struct_config__.tag == "request.preempted")
    await seat.stand_at(number + 1)
    await seat.press(key)
    assert isinstance(seat.app.screen, TextScreen)
    assert "core/preemption.py" in str(seat.app.screen.query_one("#text").border_title)
    assert "RequestPreempted" in seat.window_text()
    await seat.press("escape")
    seat.app.set_focus(None)
    await seat.stand_at(0)
    await seat.press(key)
    assert told(seat.app) == ["Choose an event or step to one: its source is shown then."]


@of_command("look.filter")
async def shows_only_events_with_a_word(seat: Seat, key: str) -> None:
    def kinds() -> set[str]:
        rows = [row for row in drawn(seat.app, "events")[2:] if row.strip()]
        return {re.search(r"[a-z]+\.[a-z]+", row).group() for row in rows}

    await seat.press(key)
    await seat.answer("preempted")
    assert seat.app.current_mode == "events" and "preempted" in drawn(seat.app, "events")[0]
    assert kinds() == {"request.preempted"}
    await seat.press(key, "escape")
    assert seat.app.context.event_filter == "preempted", "who only looked changes nothing"
    await seat.press(key)
    assert seat.app.screen.query_one(Input).value == "preempted"
    await seat.answer("!block")
    assert kinds() and not any("block" in kind for kind in kinds())
    await seat.press(key)
    await seat.answer("")
    assert seat.app.context.event_filter == "" and any("block" in row for row in drawn(seat.app, "events"))
    await seat.press("1", key, "escape")
    assert seat.app.current_mode == "overview"


@of_command("look.maximize")
async def gives_the_panel_the_whole_screen(seat: Seat, key: str) -> None:
    seat.app.set_focus(panel(seat.app, "blockmap"))
    before = panel(seat.app, "blockmap").size
    await seat.press(key)
    large = panel(seat.app, "blockmap")
    assert large.size.width > 100 and large.size.height > before.height
    assert "".join(drawn(seat.app, "blockmap")).count("█") > 10
    await seat.press(key)
    assert panel(seat.app, "blockmap").size == before


# ---- the engine ----

_CONTROL_MESSAGE = "This engine is not in this process, so it can only be watched."


def asks_of_the_engine(*expected: tuple, prepare: str = "", answer: str | None = None) -> Check:
    """Pressing the key makes these calls; without an engine it says that there is none."""

    async def check(seat: Seat, key: str) -> None:
        running = seat.app.model.fold.running[0]
        if prepare == "running":
            await seat.choose(sequence(running))
        await seat.press(key)
        if seat.control is None:
            assert told(seat.app)[-1] == _CONTROL_MESSAGE
            return
        if answer is not None:
            await seat.answer(answer)
        names = {"REQUEST": running.removesuffix(".0"), "SEQUENCE": running}
        assert seat.control.calls == [tuple(names.get(part, part) for part in call) for call in expected]
        assert told(seat.app) == [] or "takes the engine some seconds" in told(seat.app)[-1]

    return check


CHECKS["engine.step"] = asks_of_the_engine(("step",))
CHECKS["engine.phase"] = asks_of_the_engine(("step_phase",))
CHECKS["engine.burst"] = asks_of_the_engine(("add_burst",))
CHECKS["engine.xray"] = asks_of_the_engine(("trace_kernel", "SEQUENCE"), prepare="running")
CHECKS["engine.abort"] = asks_of_the_engine(("abort", "REQUEST"), prepare="running")
_asks = asks_of_the_engine(("add_request", "Who was Ada? [b]"), answer=" Who was Ada? [b] ")
_sets = asks_of_the_engine(("set_option", "max_num_seqs", 2), answer="max_num_seqs = 2")


@of_command("engine.pause")
async def pauses_the_engine_and_lets_it_go_on(seat: Seat, key: str) -> None:
    await seat.press(key)
    if seat.control is None:
        assert told(seat.app)[-1] == _CONTROL_MESSAGE
        return
    await seat.press("end")
    await until(seat.pilot, lambda: "ENGINE PAUSED before schedule" in drawn(seat.app, "header")[0])
    await seat.press(key)
    assert seat.control.calls == [("pause",), ("resume",)]
    await until(seat.pilot, lambda: "LIVE" in drawn(seat.app, "header")[0])


@of_command("engine.add")
async def asks_the_model_something(seat: Seat, key: str) -> None:
    await _asks(seat, key)
    if seat.control is not None:
        await seat.press(key, "escape", key)
        await seat.answer("   ")
        assert len(seat.control.calls) == 1


@of_command("engine.option")
async def changes_an_option(seat: Seat, key: str) -> None:
    await _sets(seat, key)
    if seat.control is None:
        return
    for nonsense in ("max_num_seqs", "max_num_seqs two", "", "7", "max_num_seqs ²", "max_num_seqs " + "9" * 5000):
        await seat.press(key)
        await seat.answer(nonsense)
        assert nonsense == "" or told(seat.app)[-1] == "Write a name and a whole number, as in: max_num_seqs 2."
    await seat.press(key, "escape")
    assert len(seat.control.calls) == 1


@of_command("engine.mass")
async def records_attention_and_stops(seat: Seat, key: str) -> None:
    await seat.press(key)
    if seat.control is None:
        assert told(seat.app)[-1] == _CONTROL_MESSAGE
        return
    assert told(seat.app)[-1] == "Attention on each block is recorded from the next step on."
    await seat.press(key)
    assert told(seat.app)[-1] == "No longer recorded."
    assert seat.control.calls == [("record_attention_mass", True), ("record_attention_mass", False)]


# ---- the dashboard ----


@of_command("app.theme")
async def changes_between_dark_and_light(seat: Seat, key: str) -> None:
    text = all_drawn(seat.app)
    await seat.press(key)
    assert seat.app.theme == LIGHT.name and all_drawn(seat.app) == text
    await seat.press(key)
    assert seat.app.theme == DARK.name and all_drawn(seat.app) == text


@of_command("app.screenshot")
async def saves_the_screen_as_a_picture(seat: Seat, key: str) -> None:
    await seat.press(key)
    (path,) = Path.cwd().glob("*.svg")
    assert told(seat.app)[-1] == f"Saved {path}." or path.name in told(seat.app)[-1]
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<svg") and f"step&#160;{MIDDLE}" in text


@of_command("app.export")
async def saves_the_recording_and_a_trace(seat: Seat, key: str) -> None:
    await seat.press(key)
    (log,), (trace,) = Path.cwd().glob("*.jsonl"), Path.cwd().glob("*.perfetto.json")
    assert log.name in told(seat.app)[-1] and trace.name in told(seat.app)[-1]
    assert len(log.read_bytes().splitlines()) == 1 + len(seat.stage.events)
    assert len(msgspec.json.decode(trace.read_bytes())["traceEvents"]) > len(seat.stage.events) // 4


@of_command("app.next_recording")
async def says_that_there_is_no_next_recording(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert told(seat.app) == ["There is no other recording: replay takes several."]


@of_command("app.palette")
async def finds_a_command_and_runs_it(seat: Seat, key: str) -> None:
    await seat.press(key)
    await seat.pilot.press(*"scheduler")
    # A step of the engine has the word in its help.
    await until(seat.pilot, lambda: seat.app.screen.query_one("CommandList").option_count == 2)
    await seat.pilot.press("enter")
    await until(seat.pilot, lambda: seat.app.current_mode == "scheduler" and len(seat.app.screen_stack) == 1)
    await seat.press(key)
    await until(seat.pilot, lambda: seat.app.screen.query_one("CommandList").option_count == len(COMMANDS))
    await seat.press("escape")


@of_command("app.help")
async def explains_the_focused_panel_and_all_keys(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert isinstance(seat.app.screen, HelpScreen)
    text = " ".join(seat.window_text().split())
    focused = panel(seat.app, "slots")
    assert text.startswith(f"{focused.HELP_TITLE} {focused.HELP_TEXT}")
    assert all(command.help in text for command in COMMANDS)
    await seat.press(key)
    assert len(seat.app.screen_stack) == 1


async def leaves(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app._exit


CHECKS["app.quit"] = leaves


@of_command("app.interrupt")
async def leaves_also_from_a_window(seat: Seat, key: str) -> None:
    await seat.press("g")
    await leaves(seat, key)


# ---- all of them ----

_LEAVES = ("app.quit", "app.interrupt")
"""Each has an app of its own."""


def test_every_command_of_the_table_has_a_check() -> None:
    assert {command.id for command in COMMANDS} == set(CHECKS)


def run_checks(stage, commands: list[Command], subtests: pytest.Subtests, control: FakeControl | None = None) -> None:
    async def script(pilot: Pilot) -> None:
        seat = Seat(pilot, stage, control)
        for command in commands:
            with subtests.test(command.id):
                await seat.sit_down()
                keys = command.keys.split(",")
                # The others of its keys are bound to the same command, which is all that there is to know of them.
                assert keys_now(seat.app.screen)[command.id] == keys
                await CHECKS[command.id](seat, keys[0])

    drive(app_for(stage, control=control), script)


@pytest.mark.parametrize("group", list(dict.fromkeys(command.group for command in COMMANDS)))
def test_every_key_does_what_its_help_says(
    group: str, memory_pressure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [one for one in COMMANDS if one.group == group and one.id not in _LEAVES]
    run_checks(memory_pressure.run(), commands, subtests, FakeControl())


def test_without_an_engine_its_keys_say_that_it_can_only_be_watched(memory_pressure, subtests) -> None:
    run_checks(memory_pressure.run(), [one for one in COMMANDS if one.group == "Engine"], subtests)


@pytest.mark.parametrize("command_id", _LEAVES)
def test_a_key_that_leaves_ends_the_app(command_id: str, memory_pressure, subtests) -> None:
    commands = [one for one in COMMANDS if one.id == command_id]
    run_checks(memory_pressure.run(5), commands, subtests)


def test_engine_keys_that_need_somebody_chosen_say_so_and_what_was_refused_is_told(memory_pressure) -> None:
    control = FakeControl()
    app = app_for(memory_pressure.run(MIDDLE), control=control)

    async def script(pilot: Pilot) -> None:
        for key, sentence in (
            ("x", "Choose a running or waiting request first"),
            ("X", "Choose a running sequence first"),
        ):
            await pilot.press(key)
            await settle(pilot)
            assert [one.split(" (")[0] for one in told(app)] == [sentence]
        assert control.calls == []
        control.to_say = ["max_num_seqs can be at most 4 [b].", "There is no request eve."]
        await until(pilot, lambda: told(app) == ["max_num_seqs can be at most 4 [b]. There is no request eve."])
        await pilot.press("space", "n")
        await settle(pilot)
        assert app.context.transport.state == "live", "who takes a step wants to see it"

    drive(app, script)


def test_a_new_sentence_takes_the_place_of_the_one_before(memory_pressure) -> None:
    app = app_for(memory_pressure.run(MIDDLE))

    async def script(pilot: Pilot) -> None:
        for sentence in ("One.", "One.", "Two."):  # faster than they can be shown
            app.tell(sentence)
        await until(pilot, lambda: told(app) == ["Two."])
        await pilot.press("p", "p", "D", "m")
        await settle(pilot)
        assert len(told(app)) == 1 and told(app)[0].startswith("Mark m1 is at step ")

    drive(app, script)


def test_what_cannot_be_saved_is_one_sentence(memory_pressure, tmp_path: Path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    app = app_for(memory_pressure.run(5))

    async def script(pilot: Pilot) -> None:
        for key in ("ctrl+s", "E"):
            await pilot.press(key)
            await settle(pilot)
            (sentence,) = told(app)
            assert "cannot be written" in sentence and "\n" not in sentence

    drive(app, script)


def test_the_next_recording_is_opened_by_whoever_opened_this_one(memory_pressure) -> None:
    app = app_for(memory_pressure.run(5), has_next=True)

    async def script(pilot: Pilot) -> None:
        await pilot.press("ctrl+n")
        await settle(pilot)
        assert app._exit and app.return_value == "next"

    drive(app, script)


def test_a_key_that_can_do_nothing_here_says_so(memory_pressure) -> None:
    app = app_for(memory_pressure.run(5), state="paused")
    silent = {
        "left": "the beginning", "left_square_bracket": "the beginning", "left_curly_bracket": "the beginning",
        "down": "tab goes to one", "pageup": "tab goes to one", "z": "tab goes to one", "enter": "Nothing is chosen",
    }  # fmt: skip

    async def script(pilot: Pilot) -> None:
        async def says(keys: str, words: str) -> None:
            app.clear_notifications()
            await pilot.press(*keys.split())
            await until(pilot, lambda: told(app))
            assert words in told(app)[0], keys

        for key, words in silent.items():
            await says(key, words)
        await says("end right right", "nothing after this")
        await says("m apostrophe", "This is mark m1, and there is no other.")
        await says("minus minus minus", "slower than 0.25×")
        await says("plus plus plus plus plus plus plus", "faster than 16×")
        await show_screen(pilot, "requests")
        app.set_focus(panel(app, "request-detail"))
        await says("down", "nothing to choose in this panel now")

    drive(app, script)


def test_the_footer_fits_into_the_narrowest_usual_terminal(memory_pressure) -> None:
    app = app_for(memory_pressure.run(5))

    async def script(pilot: Pilot) -> None:
        for number in range(1, len(SCREENS) + 1):
            await pilot.press(str(number))
            await settle(pilot)
            keys = {key.description: key.region for key in app.screen.query(FooterKey)}
            assert list(keys)[-1] == "Quit" and 0 < keys["Quit"].right <= 80

    drive(app, script, (80, 24))


def test_a_persons_own_keys_work_and_stand_in_the_footer_and_the_help(memory_pressure) -> None:
    stage = memory_pressure.run()
    app = app_for(stage, keymap={"time.step": "ctrl+right,y", "look.why": "f9", "app.quit": "f10"})

    async def script(pilot: Pilot) -> None:
        seat = Seat(pilot, stage, None)
        await seat.sit_down()
        for key, position in (("y", 21), ("ctrl+right", 22), ("right", 22), ("l", 22), ("left", 21)):
            await seat.press(key)
            seat.stands_at(seat.end_of(position))
        await seat.press("w")
        assert told(app) == []
        await seat.press("f9", "q")
        assert len(told(app)) == 1 and not app._exit
        shown = {key.description: key.key_display for key in app.screen.query(FooterKey)}
        assert (shown["Why?"], shown["Quit"]) == ("f9", "f10")
        assert shown["Step"] in ("^→", "ctrl+right", "^right")
        await seat.press("question_mark")
        assert re.search(r"ctrl\+right y +Step +To the end of the next step", seat.window_text())
        assert re.search(r"f10 +Quit", seat.window_text())
        await seat.press("escape", "f10")
        assert app._exit

    drive(app, script)


def test_a_second_recording_stands_at_the_same_step_whatever_key_moves_the_first(memory_pressure) -> None:
    stage = memory_pressure.run()
    app = app_for(stage, other=source_of(stage))

    async def script(pilot: Pilot) -> None:
        await until(pilot, lambda: len(app.context.second.recording) == len(stage.events))
        await pilot.press("6")
        for key in ("home", "right", "right", "right_curly_bracket", "end", "left"):
            await pilot.press(key)
            await settle(pilot)
            assert app.context.second.view.fold.step == app.model.fold.step
        assert "r7" in all_drawn(app)

    drive(app, script)
