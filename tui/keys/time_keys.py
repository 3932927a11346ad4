"""`TimeKeys`: the keys that move in time.

In a run that waits for its reader (`EngineControl.pauses_with_picture`), the engine runs only while
the picture is live. So nothing is missed while someone reads.
"""

from collections.abc import Callable

from minivllm.tui.control import EngineControl
from minivllm.tui.dashboard import Dashboard
from minivllm.tui.time.transport import State, Transport


class TimeKeys:
    def __init__(self, app: Dashboard) -> None:
        self._app = app
        self._state: State = app.context.own.state
        """Of the dashboard's own recording, at the last look."""

    @property
    def _transport(self) -> Transport:
        """Read each time: the next page of a lesson can have another recording."""
        return self._app.context.transport

    def run(self, move: Callable[[Transport], object]) -> None:
        """Move, then draw."""
        move(self._transport)
        self.tick()
        self._draw()

    def _draw(self) -> None:
        """Draw; if the answer to `w` is open, answer for the new moment."""
        self._app.draw()
        if self._app.has_answer:
            self._app.look_keys.answer(again=True)

    def tick(self) -> None:
        """Let an engine that pauses with the picture run only while the picture is live."""
        before, self._state = self._state, self._app.context.own.state
        control = self._app.context.control
        if control is not None and control.pauses_with_picture and self._state != before:
            control.resume() if self._state == "live" else control.pause()

    def follow_steps(self) -> None:
        """Go to the live end without resuming the engine: it runs step by step."""
        self._app.context.own.to_live()
        self._state = "live"
        self._draw()

    def go_on(self) -> None:
        """Go to the live end, and let the engine of this process run."""
        self.follow_steps()
        self._app.context.control.resume()

    @property
    def _paused_engine(self) -> EngineControl | None:
        """At the newest moment, the engine that paused with the picture."""
        control, transport = self._app.context.control, self._transport
        if control is None or not control.pauses_with_picture:
            return None
        is_newest = transport is self._app.context.own and transport.at_end
        return control if is_newest and control.state().paused else None

    def _says_the_end(self) -> bool:
        if is_over := self._app.context.shows_the_end:
            self._app.tell("The run is over: ← goes back through its steps.")
        return is_over

    def toggle(self) -> None:
        if self._paused_engine is not None:
            self.go_on()
        elif not self._says_the_end():
            self.run(Transport.toggle)

    def step(self) -> None:
        """Go to the end of the next step; at the newest moment, a paused engine runs one step."""
        if (engine := self._paused_engine) is not None:
            self.follow_steps()
            engine.step()
        elif not self._says_the_end():
            self.move(Transport.step, 1)

    def move(self, move: Callable[[Transport, int], None], by: int) -> None:
        """Move by `by`, and say so if there is nothing in that direction."""
        transport = self._transport
        before = transport.position, transport.state
        move(transport, by)
        self.tick()
        if (transport.position, transport.state) == before:
            self._app.tell(
                "This is the beginning." if by < 0 else "There is nothing after this (so far)."
            )
        self._draw()

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
        self._draw()

    def speed(self, by: int) -> None:
        transport = self._transport
        before = transport.speed
        transport.change_speed(by)
        if transport.speed == before:
            self._app.tell(f"{before:g}× is the {'slowest' if by < 0 else 'fastest'} speed.")
        self._app.draw()
