"""`TimeKeys`: the keys that move in time."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from minivllm.tui.time.transport import Transport

if TYPE_CHECKING:
    from minivllm.tui.app import DashboardApp


class TimeKeys:
    def __init__(self, app: "DashboardApp") -> None:
        self._app = app

    @property
    def _transport(self) -> Transport:
        """Read each time: the next page of a lesson can have another recording."""
        return self._app.context.transport

    def run(self, move: Callable[[Transport], object]) -> None:
        """Move, then draw."""
        move(self._transport)
        self._app.draw()

    def move(self, move: Callable[[Transport], None], by: int) -> None:
        """Move by `by`, and say so if there is nothing in that direction."""
        transport = self._transport
        before = transport.position, transport.state
        move(transport, by)
        if (transport.position, transport.state) == before:
            self._app.tell(
                "This is the beginning." if by < 0 else "There is nothing after this (so far)."
            )
        self._app.draw()

    def leave_the_past(self) -> None:
        """Go to the live end, where the engine takes new requests, and report the jump."""
        own = self._app.context.own
        if own.state != "live":
            step = own.view.fold.step
            own.to_live()
            self._app.tell(
                f"The picture was at step {step:,}. It is live again now, because the"
                " engine accepts requests only there."
            )
            self._app.draw()

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
        self._app.draw()

    def speed(self, by: int) -> None:
        transport = self._transport
        before = transport.speed
        transport.change_speed(by)
        if transport.speed == before:
            self._app.tell(f"{before:g}× is the {'slowest' if by < 0 else 'fastest'} speed.")
        self._app.draw()
