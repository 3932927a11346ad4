"""The line over both sides: the progress of a race, then its clock, and how it was run."""

from typing import TYPE_CHECKING

from textual.binding import Binding

from minivllm.text import clean
from minivllm.tui.draw.lines import Line, Row, line
from minivllm.tui.draw.wrap import wrap
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.follow import seconds_at
from minivllm.tui.widgets.frame.keybar import bound_commands
from minivllm.tui.widgets.frame.panel import Panel

if TYPE_CHECKING:
    from minivllm.tui.race import RaceRuns

_WIDEST_BAR = 30


class RaceLine(Panel, can_focus=False):
    HELP_TITLE = "Race"
    HELP_TEXT = (
        "R serves the requests of this run again, with two configurations and equal memory. Both"
        " sides use the real scheduler and the real memory management. The model does not run:"
        " each token is the recording's, and each step takes as long as the recording's steps"
        " suggest. Pauses between steps are left out. S switches the clock: the same second shows"
        " who is faster, the same step shows the decisions side by side."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._bound: dict[str, Binding] = {}

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        context, row = self.context, Row(width).put(" ")
        race = context.race
        if race is not None and race.state == "running":
            return [_progress(race, row, self._key("race.cancel"))]
        if context.second is None:
            row.put(f"{self._key('race.start')} ", "accent*")
            row.put("races two configurations on the requests of this run.", "muted")
            return [row.put("" if race is None else f"  {clean(race.sentence)}", "warn").line()]
        own_race = race if context.behind is not None else None
        if own_race is not None and context.transport.at_end:
            row.put(f"{verdict(own_race)}  ", "text*")
        if context.same == "second":
            row.put("Same second: ", "accent*")
            row.put(f"{seconds_at(context.transport):,.2f} s", "text*")
        else:
            row.put("Same step: ", "accent*").put(f"{context.transport.view.fold.step:,}", "text*")
        other = "step" if context.same == "second" else "second"
        row.put(f"  {self._key('race.clock')} ", "accent*").put(f"same {other}", "muted")
        notes = [] if own_race is None else wrap(clean(own_race.sentence), width - 1)
        return [row.line(), *(line(width, (f" {note}", "warn")) for note in notes)][:height]

    def _key(self, command_id: str) -> str:
        if not self._bound:  # finding them takes a good part of a frame's time
            self._bound = bound_commands(self.screen)
        return self.app.get_key_display(self._bound[command_id])


def verdict(race: "RaceRuns") -> str:
    a, b = race.results
    return (
        f"A took {a.seconds:,.1f} s, B {b.seconds:,.1f} s, {a.seconds / b.seconds:.1f} times as"
        f" fast. Wasted on average: A {a.waste:.0%}, B {b.waste:.0%}."
    )


def _progress(race: "RaceRuns", row: Row, key: str) -> Line:
    bar = min(_WIDEST_BAR, max(row.room // 4, 1))
    done = round(bar * race.part)
    row.put("Race: ", "accent*").put("█" * done, "accent").put("░" * (bar - done), "faint")
    row.put(f" {race.part:.0%}", "text*").put(f"  {key} ", "accent*").put("cancels   ", "muted")
    return row.put(clean(f"{race.names.a} beside {race.names.b}"), "text").line()
