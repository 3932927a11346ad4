"""The narrated line: one sentence about the newest notable decision, its cause first."""

from textual.geometry import Size

from minivllm.text import clean
from minivllm.tui.draw.lines import Line, Row, line, wrap
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
        ended = [] if tour is None or not tour.is_over else [line(width, (f" {NEXT}", "accent*"))]
        return [*ended, *self._told(model, width)][:height]

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
        transport, engine = self.context.transport, self.context.engine
        if transport.state == "live":
            stops = transport.quiet_seconds >= 1 or (engine is not None and engine.state().paused)
            return None if stops or self.context.shows_the_end else "live"
        return None if transport.state == "paused" else "playing"

    def _stop_of(self, tour: Tour, width: int) -> list[Line]:
        bound = self.screen.bound.get(tour.stop.command)
        key = "" if bound is None else f" {bound.key_display} "
        said = tour.stop.then if tour.is_answered else tour.stop.sentence
        words = wrap(f"{tour.number} of {len(tour.stops)}  {said}", width - 14)
        rows = [Row(width).put(" ").put(row, "accent*") for row in words]
        if not tour.is_answered:
            rows[-1].put("  press ", "muted").put(key, "accent*!")
        return [row.line() for row in rows]
