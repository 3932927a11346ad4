"""The real dashboard driven by keys without a terminal, and its screen as text."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from math import inf

import textual.app
import textual.pilot
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.widgets import Input

from minivllm.events import types as ev
from minivllm.tui.app import SCREENS, DashboardApp
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS
from minivllm.tui.widgets.frame.panel import Panel
from support.patience import SOON


async def _until_all_tasks_wait(*_: object) -> None:
    """Wait until every other task waits for a timer, a file or a thread: no message is left."""
    await asyncio.sleep(0)
    while asyncio.get_running_loop()._ready:
        await asyncio.sleep(0)


# Textual's pilot sends a message through every widget, and waits until little processor time is
# used, which takes long on a busy machine.
textual.app.wait_for_idle = textual.pilot.wait_for_idle = _until_all_tasks_wait
Pilot._wait_for_screen = _until_all_tasks_wait

_parse_rules, _rules = Stylesheet._parse_rules, {}


def _parse_once(stylesheet: Stylesheet, css: str, *given: object, **named: object) -> list[RuleSet]:
    """Share the parsed style sheet between apps: it is a quarter of the start of an app."""
    variables = tuple(sorted(stylesheet._variables.items()))
    key = css, given, tuple(named.items()), variables
    if key not in _rules:
        _rules[key] = _parse_rules(stylesheet, css, *given, **named)
    return _rules[key]


Stylesheet._parse_rules = _parse_once


def keys_of(app: DashboardApp) -> dict[str, str]:
    """Label -> key in the bottom line, from left to right."""
    bar = app.dashboard_screen.keybar
    (line,) = bar.lines(app.model, bar.content_size.width, 1)
    texts = [text.strip() for text, *_ in line]
    return dict(zip(texts[1::2], texts[::2], strict=True))


def drive(
    app: DashboardApp, script: Callable[[Pilot], Awaitable[None]], size: tuple[int, int] = (120, 36)
) -> None:
    """Run `app` without a terminal while `script` presses its keys.

    No timer draws frames: `until` and `settle` do.
    """
    app.set_interval, app.allowance = frames, _ = Frames(), inf
    app.frames = frames

    async def main() -> None:
        async with app.run_test(size=size, notifications=True) as pilot:
            await until(
                pilot, lambda: app.dashboard_screen is not None and app.dashboard_screen.has_panels
            )
            known = -1
            while known < (known := len(app.context.own.recording)):
                await frame(app)  # a frame reads events for some milliseconds only
            await settle(pilot)
            await script(pilot)

    asyncio.run(main())


class Frames:
    """Replaces the timer of the app: keeps the function that draws a frame."""

    def __init__(self) -> None:
        self.draw: Callable[[], None] = lambda: None

    def __call__(self, seconds: float, draw: Callable[[], None]) -> "Frames":
        self.draw = draw
        return self

    def stop(self) -> None:
        self.draw = lambda: None


async def frame(app: DashboardApp) -> None:
    """Draw a frame, in the app's own task, as its timer would."""
    if app.call_later(lambda: app.frames.draw()):
        await _reached(app.call_later)


def source_of(stage) -> InProcessSource:
    """A source with all events of a stage, as from a running engine."""
    return InProcessSource(stage.header, stage.events, codec=MODELS)


def app_for(stage, watch: str = "", **options: object) -> DashboardApp:
    return DashboardApp(source_of(stage), watch=watch, **options)


def put(app: DashboardApp, *events: ev.Event) -> None:
    for event in events:
        app.context.transport.source.put(event)


async def until(pilot: Pilot, holds: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        await frame(pilot.app)
        await pilot.pause(0.005)


async def settle(pilot: Pilot) -> None:
    """Wait until the effects of keys and clicks are drawn."""
    app, places = pilot.app, None
    await _until_all_tasks_wait()
    await frame(app)
    while not app._exit:
        app.screen._on_timer_update()  # now, not a sixtieth of a second later
        await _reached(app.screen.call_after_refresh)
        await _until_all_tasks_wait()  # panels draw when they get a new size
        before, places = places, {panel: panel.region for panel in visible(app)}
        is_painted = not app.screen._dirty_widgets
        if places == before and is_painted and all(panel._model is not None for panel in places):
            return


async def _reached(call: Callable[[Callable], bool]) -> None:
    """Wait until a widget has handled the messages before this one."""
    done = asyncio.Event()
    if call(done.set):  # a removed widget takes no messages
        await asyncio.wait_for(done.wait(), SOON)


async def press(pilot: Pilot, *keys: str) -> None:
    """Press keys, and wait until their effects are drawn."""
    await pilot.press(*keys)
    await settle(pilot)


async def answer(pilot: Pilot, text: str) -> None:
    """Write into the open window and press enter."""
    pilot.app.screen.query_one(Input).value = text
    await press(pilot, "enter")


async def redraw(pilot: Pilot) -> None:
    """Draw what a test has changed behind the app's back."""
    pilot.app.draw()
    await settle(pilot)


async def show_screen(pilot: Pilot, name: str) -> None:
    await press(pilot, str(SCREENS.index(name) + 1))


# ---- what is drawn ----


def panel(app: DashboardApp, id: str) -> Panel:
    return app.dashboard_screen.query_one(f"#{id}", Panel)


def drawn(app: DashboardApp, id: str) -> list[str]:
    """The painted rows of a panel."""
    shown = panel(app, id)
    return [shown.render_line(y).text for y in range(shown.content_size.height)]


def visible(app: DashboardApp) -> list[Panel]:
    """The panels that are visible on the front screen."""
    return [pane for pane in app.dashboard_screen.query(Panel) if pane.display and pane.region.area]


def all_drawn(app: DashboardApp) -> str:
    return "\n".join(
        "\n".join([str(panel.border_title or ""), *drawn(app, panel.id)]) for panel in visible(app)
    )


def told(app: DashboardApp) -> list[str]:
    """The notifications that are still shown."""
    return [notification.message for notification in app._notifications]


async def click(pilot: Pilot, id: str, words: str, times: int = 1) -> None:
    app = pilot.app
    # A frame of the timer might move the words between looking for them and the click.
    await redraw(pilot)
    y, row = next(found for found in enumerate(drawn(app, id)) if words in found[1])
    shown = panel(app, id)
    at = shown.content_region.offset - shown.region.offset
    await pilot.click(f"#{id}", offset=(at.x + row.index(words), at.y + y), times=times)
    await settle(pilot)
