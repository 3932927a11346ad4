"""`TimeKeys`: the keys that move in time."""

from collections.abc import Callable

from minivllm.tui.context import Context
from minivllm.tui.time.transport import Transport


class TimeKeys:
    def __init__(
        self, context: Context, tell: Callable[[str], None], draw: Callable[[], None]
    ) -> None:
        self._context = context
        self._tell, self._draw = tell, draw

    @property
    def _transport(self) -> Transport:
        """Read each time: the next page of a lesson can have another recording."""
        return self._context.transport

    def toggle(self) -> None:
        self._transport.toggle()
        self._draw()

    def step(self, by: int) -> None:
        self._move(by, self._transport.step)

    def event(self, by: int) -> None:
        self._move(by, self._transport.event)

    def notable(self, by: int) -> None:
        self._move(by, self._transport.notable)

    def _move(self, by: int, move: Callable[[int], None]) -> None:
        transport = self._transport
        before = transport.position, transport.state
        move(by)
        if (transport.position, transport.state) == before:
            self._tell(
                "This is the beginning." if by < 0 else "There is nothing after this (so far)."
            )
        self._draw()

    def start(self) -> None:
        self._transport.to_start()
        self._draw()

    def live(self) -> None:
        self._transport.to_live()
        self._draw()

    def leave_the_past(self) -> None:
        """Go to the live end, where the engine takes new requests, and report the jump."""
        own = self._context.own
        if own.state != "live":
            step = own.view.fold.step
            own.to_live()
            self._tell(
                f"The picture was at step {step:,}. It is live again now, because the"
                " engine accepts requests only there."
            )
            self._draw()

    def slide(self, part: float) -> None:
        """Go to the step at this fraction of the recording, from 0 to 1 (the newest event)."""
        transport = self._transport
        position = round(part * len(transport.recording))
        if part == 1:
            transport.to_live()
        elif position:
            transport.to_step(transport.recording.step_of(position))
        else:
            transport.to_start()
        self._draw()

    def speed(self, by: int) -> None:
        transport = self._transport
        before = transport.speed
        transport.change_speed(by)
        if transport.speed == before:
            self._tell(f"{before:g}× is the {'slowest' if by < 0 else 'fastest'} speed.")
        self._draw()

    def mark(self) -> None:
        mark = self._transport.mark()
        self._tell(f"Mark {mark.name} is at step {mark.step:,}.")
        self._draw()

    def previous_mark(self) -> None:
        before = self._transport.position
        mark = self._transport.to_previous_mark()
        if mark is None:
            self._tell("There is no mark yet: press m to set one.")
        elif mark.position == before:
            self._tell(f"This is mark {mark.name}, the only mark.")
        self._draw()
