"""The line over both sides: the progress of a race, then its clock, and how it was run."""

from minivllm.text import clean
from minivllm.tui.answers.verdict import verdict
from minivllm.tui.draw.digits import large
from minivllm.tui.draw.lines import Line, Row, first_that_fits, line, wrap
from minivllm.tui.race import RaceRuns
from minivllm.tui.time.follow import seconds_at
from minivllm.tui.widgets.frame.keybar import ROWS_FOR_TABS
from minivllm.tui.widgets.frame.sentences import Sentences

_WIDEST_BAR = 30


class RaceLine(Sentences, can_focus=False):
    HELP_TITLE = "Race"
    HELP_TEXT = (
        "R serves the requests of this run again with two configurations, by default in equal memory."
        " Both sides use the real scheduler and the real memory management. The model does not run:"
        " each token is the recording's, and steps take SmolLM2's times, scaled to this machine's"
        " seconds, so each race ends alike. Pauses between steps are left out. A is the side that"
        " takes longer. S switches the clock: the same second shows who is faster, the same step"
        " shows the decisions side by side."
    )

    def rows(self, width: int) -> list[Line]:
        context, row, bound = self.context, Row(width).put(" "), self.screen.bound
        race = context.race
        if race is not None and race.state == "running":
            return [_progress(race, row, bound["race.cancel"].key_display)]
        if context.second is None:
            words = "  race two configurations on the requests of this run, side by side"
            row.put(f" {bound['race.start'].key_display} ", "accent*!").put(words, "accent*")
            return [row.put("" if race is None else f"  {clean(race.sentence)}", "warn").line()]
        notes = wrap(self.note(), width - 1) if self.note() else []
        return [*self._clock(width), *(line(width, (f" {note}", "warn")) for note in notes)]

    @property
    def is_over(self) -> bool:
        """Whether a race is at its end, so that its result is shown."""
        context = self.context
        return context.race is not None and context.behind is not None and context.transport.at_end

    def note(self) -> str:
        """What to know about a race, at its end who won; or what to watch in two recordings."""
        context, second = self.context, self.context.second
        if second is None:
            return ""
        is_race = context.behind is not None and context.race is not None
        before = context.race.sentence if is_race else context.watch
        first = context.transport
        is_read = all(side.source.status.state == "recording" for side in (first, second))
        if first.at_end and is_read and (is_race or not before):
            before = verdict(first.recording, second.recording) or before
        return clean(before)

    def _clock(self, width: int) -> list[Line]:
        """What both sides have in common; at the end of a race also its result, large if it fits."""
        context = self.context
        if context.same == "second":
            label, now, other = "Same second: ", f"{seconds_at(context.transport):,.2f} s", "step"
        else:
            label, now, other = "Same step: ", f"{context.transport.view.fold.step:,}", "second"
        bound = self.screen.bound["race.clock"]
        key = (f"{bound.key_display} ", "accent*"), (f"same {other}", "muted")
        clock = (label, "accent*"), (f"{now}  ", "text*"), *key
        if not self.is_over:
            return [line(width, (" ", "text"), *clock)]
        a, b = context.race.results
        ratio, speed = f"×{a.seconds / b.seconds:.2f}", ("tokens/s", "good*")
        waste = f"mean waste {a.waste:.0%} → {b.waste:.0%}  ", "good*"
        times = f"A {a.seconds:,.1f} s, B {b.seconds:,.1f} s  ", "text*"
        if not self.plain and self.app.size.height >= ROWS_FOR_TABS:
            beside = (speed, ("   ", "text"), times), (waste,), clock
            rows = zip(large(ratio), beside, strict=True)
            return [line(width, (f" {row} ", "good*"), *words) for row, words in rows]
        won = (f" {ratio} ", "good*!"), (" ", "text"), speed, (", ", "good*"), waste
        return [first_that_fits(width, (*won, times, *clock), (*won, times, *key), won)]


def _progress(race: RaceRuns, row: Row, key: str) -> Line:
    bar = min(_WIDEST_BAR, max(row.room // 4, 1))
    done = round(bar * race.part)
    row.put("Race: ", "accent*").put("█" * done, "accent").put("░" * (bar - done), "faint")
    row.put(f" {race.part:.0%}", "text*").put(f"  {key} ", "accent*").put("cancels   ", "muted")
    return row.put(clean(f"{race.names.a} beside {race.names.b}"), "text").line()
