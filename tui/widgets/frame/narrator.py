"""The narrated line: one sentence about the newest notable decision, its cause first."""

from textual.geometry import Size

from minivllm.text import clean
from minivllm.tui.draw.lines import Line, Row, flow, line
from minivllm.tui.draw.selection import sequence, step
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.tour import NEXT, Tour
from minivllm.tui.widgets.frame.panel import Panel


class Narrator(Panel, can_focus=False):
    HELP_TITLE = "What happens"
    HELP_TEXT = (
        "The most notable of the newest decisions, its cause first. Each sentence stays for"
        " two seconds while steps go by. It goes when it is 30 steps old."
        " Without one: what this run demonstrates."
    )

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        tour = None if self.context is None else self.context.tour
        return 1 if tour is None else 2

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        if (tour := self.context.tour) is not None and tour.is_open:
            return self._stop_of(tour, width)[:height]
        rows, context = self._told(model, width), self.context
        if tour is not None and tour.is_over:
            rows.insert(0, line(width, (f" {NEXT}", "accent*")))
        elif tour is not None and context.own.state != "playing" and context.control.state().paused:
            space = self.screen.bound["time.toggle"].key_display
            rows.insert(0, line(width, (f" {space} goes on with the tour.", "accent*")))
        return rows[:height]

    def _told(self, model: DashboardModel, width: int) -> list[Line]:
        narration, motion, told = self.context.narration, self._motion(), None
        now = self.context.transport.now
        # A moving picture has no time before its first tick.
        if motion is None or now is not None:
            told = narration.look(model.log.decisions, now or 0.0, motion)
        if told is None or narration.is_old(model.fold.step, now or 0.0):
            watch = clean(self.context.watch)
            return [Row(width).put(" Watch: ", "accent*").put(watch).line()] if watch else []
        row = Row(width).put(f" step {told.step:,}  ", "muted", target=step(told.step))
        style = f"{model.hue(told.letter)}*"
        return [row.put(told.narrated(), style, target=sequence(told.owner)).line()]

    def _motion(self) -> str | None:
        """How the picture moves; None while it stands still."""
        transport = self.context.transport
        if transport.state == "live":
            stops = transport.quiet_seconds >= 1 or self.context.engine_stands
            return None if stops or self.context.shows_the_end else "live"
        return None if transport.state == "paused" else "playing"

    def _stop_of(self, tour: Tour, width: int) -> list[Line]:
        head, bound = f" {tour.number} of {len(tour.stops)}  ", self.screen.bound
        if tour.is_answered:
            return flow(((f"{head}{tour.stop.then}", "accent*"),), width, 1)
        key, space = (f" {bound[name].key_display} " for name in (tour.stop.command, "time.toggle"))
        asks = (f"{head}{tour.stop.sentence}", "accent*"), ("  press ", "muted"), (key, "accent*!")
        skips = (" or ", "muted"), (space, "accent*!"), (" to skip", "muted")
        # While a race is shown, space plays that.
        return flow(asks if self.context.behind else asks + skips, width, 1)
