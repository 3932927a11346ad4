"""The app's actions that move in time: methods of `DashboardApp`, one a key.

They ask the transport, have the second recording follow, and draw. The easy thing to get wrong is a key that does
nothing without a word: the transport goes as far as it can, and at an end that is nowhere. So each move is compared with
where the picture stood before, and what was not possible is told.
"""

from collections.abc import Callable

from minivllm.tui.widgets.frame.timeline import TimeLine


class Moves:
    """Methods of `DashboardApp`."""

    def action_toggle(self) -> None:
        self.context.transport.toggle()
        self._moved()

    def action_step(self, by: int) -> None:
        self._move(by, self.context.transport.step)

    def action_event(self, by: int) -> None:
        self._move(by, self.context.transport.event)

    def action_notable(self, by: int) -> None:
        self._move(by, self.context.transport.notable)

    def _move(self, by: int, move: Callable[[int], None]) -> None:
        transport = self.context.transport
        before = transport.position, transport.state
        move(by)
        if (transport.position, transport.state) == before:
            self.tell("This is the beginning." if by < 0 else "There is nothing after this (so far).")
        self._moved()

    def action_start(self) -> None:
        self.context.transport.to_start()
        self._moved()

    def action_live(self) -> None:
        self.context.transport.to_live()
        self._moved()

    def on_time_line_moved(self, message: TimeLine.Moved) -> None:
        """The slider: to the end of the step at that place; at its end to the newest event."""
        transport = self.context.transport
        position = round(message.part * len(transport.recording))
        if message.part == 1:
            transport.to_live()
        else:
            transport.to_step(transport.recording.step_of(position)) if position else transport.to_start()
        self._moved()

    def action_speed(self, by: int) -> None:
        transport = self.context.transport
        before = transport.speed
        transport.change_speed(by)
        if transport.speed == before:
            self.tell(f"It does not play {'slower' if by < 0 else 'faster'} than {before:g}×.")
        self._moved()

    def action_mark(self) -> None:
        mark = self.context.transport.mark()
        self.tell(f"Mark {mark.name} is at step {mark.step:,}.")
        self._moved()

    def action_previous_mark(self) -> None:
        before = self.context.transport.position
        mark = self.context.transport.to_previous_mark()
        if mark is None:
            self.tell("There is no mark yet: m sets one.")
        elif mark.position == before:
            self.tell(f"This is mark {mark.name}, and there is no other.")
        self._moved()

    def _moved(self) -> None:
        if self.context.second is not None:
            self.context.second.to_step(self.model.fold.step)
        self.draw()
