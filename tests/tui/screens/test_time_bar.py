"""The ticks of the time bar: they are exactly the hits, evictions and preemptions so far."""

from support.tui.driven_app import app_for, drawn, drive, put, settle
from support.tui.memory_recording import notable_numbers
from textual.pilot import Pilot

from minivllm.events import types as ev

KINDS = (ev.BlockHit, ev.BlockEvicted, ev.RequestPreempted)
SIGNS = {"━": "", "─": "", "┷": "h", "┴": "h", "┯": "e", "┬": "e", "┿": "he", "┼": "he"}


def ticks_of(events: list[ev.Event], width: int) -> list[str]:
    """For each cell: h, e and p for the kinds of notable events that the slider passes in it."""
    cells = [set() for _ in range(width)]
    for number in notable_numbers(events):
        if (kind := type(events[number])) in KINDS:
            cell = min((number + 1) * width // len(events), width - 1)
            cells[cell].add("hep"[KINDS.index(kind)])
    return ["p" if "p" in cell else "".join(sorted(cell, reverse=True)) for cell in cells]


def test_the_ticks_are_those_of_the_recording_as_it_grows(memory_pressure) -> None:
    stage = memory_pressure.run()
    events = list(stage.events)
    stage.events = events[:5]
    app = app_for(stage)

    async def script(pilot: Pilot) -> None:
        for count in (0, 20, 200, len(events)):
            put(app, *events[len(app.context.transport.recording) : count])
            app._frame()
            for part in (0.0, 0.4, 1.0):
                app.time_keys.slide(part)
                await settle(pilot)
                shown, count = drawn(app, "timeline")[0], len(app.context.transport.recording)
                expected = ticks_of(events[:count], width := shown.index(" step ") - 1)
                for cell, sign in enumerate(shown[1 : 1 + width]):
                    if sign != "●":
                        assert ("p" if sign == "↺" else SIGNS[sign]) == expected[cell], shown
                        assert sign in "↺━┷┯┿" or cell > shown.index("●") - 1
        assert set("┯↺") <= set(drawn(app, "timeline")[0])

    drive(app, script, (80, 24))
