"""`Transport`: the current moment of a recording, and the moves to other moments.

It works like the controls of a live video: while live, the picture follows the newest event; after
a pause or a step back, it stays while the recording grows.

A position is a number of events. While live, `view` is the recording's own newest model, which
keeps changing. So a move away from live must restore another model from a keyframe, and must never
change the newest model.
"""

from typing import Literal

from minivllm.events import types as ev
from minivllm.tui.sources.source import EventSource
from minivllm.tui.state.model import DashboardModel

STEPS_PER_SECOND = 8.0
"""Steps per second at speed 1: slow enough to follow."""
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_NEAR = 2000
"""Apply up to this many events one by one; for more events, a keyframe is faster."""

State = Literal["live", "playing", "paused"]


class Transport:
    def __init__(self, source: EventSource[DashboardModel], state: State = "live") -> None:
        """state: "live" begins at the newest event, "playing" and "paused" at the first"""
        self.source = source
        self.recording = source.recording
        self.state: State = state
        self.speed = 1.0
        self.position = 0
        self.view = self.recording.view_at_event(0)
        self._due = 0.0
        """Number of steps to play now, with a fraction."""
        self.now: float | None = None
        """The time of the last tick."""
        self.quiet_seconds = 0.0
        """Seconds since the last event from the source, or since the first tick."""
        if state == "live":
            self._follow()

    # ---- time passes ----

    def tick(self, now: float, seconds: float) -> bool:
        """Take in new events for at most about `seconds`, then play the steps that are due.

        now: seconds of any clock
        Returns whether there may be something new to draw.
        """
        num_new = self.source.poll(seconds)
        elapsed = 0.0 if self.now is None else now - self.now
        self.now = now
        self.quiet_seconds = 0.0 if num_new else self.quiet_seconds + elapsed
        if self.state == "live":
            self._follow()
        elif self.state == "playing":
            return self._play(elapsed) or num_new > 0
        return num_new > 0

    def _follow(self) -> None:
        self.view, self.position = self.recording.head, len(self.recording)

    def _play(self, elapsed: float) -> bool:
        """Play the steps that are due; return whether there are any, or the end is reached."""
        self._due += elapsed * STEPS_PER_SECOND * self.speed
        whole = int(self._due)
        self._due -= whole
        if whole and not self.at_end:
            # The step at the current position is the first one to play.
            self._move(self.recording.step_end(self.recording.step_of(self.position) + whole - 1))
        if self.at_end:
            self.to_live() if self.source.status.state in ("live", "lost") else self.pause()
        return whole > 0 or self.state != "playing"

    # ---- for the top line ----

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.recording)

    @property
    def is_over(self) -> bool:
        """Whether this is the end of a recording that does not grow."""
        return self.at_end and self.source.status.state in ("recording", "ended")

    @property
    def steps_behind(self) -> int:
        return max(self.recording.head.fold.step - self.view.fold.step, 0)

    def event_here(self) -> ev.Event | None:
        """The last event before this moment."""
        return next(self.recording.events(self.position - 1, self.position), None)

    # ---- play and pause ----

    def pause(self) -> None:
        if self.state == "live":
            self._stand_at(self.position)
        self.state = "paused"

    def play(self) -> None:
        """Play from here; at the end of a finished recording, from its beginning."""
        if self.is_over:
            self._move(0)
        self.state, self._due = "playing", 0.0

    def play_within(self, seconds: float, num_steps: int) -> None:
        """Play from here, fast enough for so many steps to take about these seconds."""
        wanted = max(num_steps / (STEPS_PER_SECOND * seconds), 1.0)
        self.speed = next((speed for speed in SPEEDS if speed >= wanted), SPEEDS[-1])
        self.play()

    def toggle(self) -> None:
        self.play() if self.state == "paused" or self.is_over else self.pause()

    def to_live(self) -> None:
        self.state = "live"
        self._follow()

    def change_speed(self, by: int) -> None:
        at = SPEEDS.index(self.speed) + by
        self.speed = SPEEDS[min(max(at, 0), len(SPEEDS) - 1)]

    # ---- moves: each of them pauses ----

    def step(self, by: int) -> None:
        """Go to the end of the next or previous step; inside a step, to the step's end or start."""
        here = self.recording.step_of(max(self.position - 1, 0))
        is_torn = self.state == "live" and self.view.steps.current is not None
        if by < 0 or is_torn:  # a live step that is not over is no place to stay
            self.to_position(self.recording.step_begin(here) if self.position else 0)
        elif self.at_end:
            self.to_position(self.position)
        else:
            inside = self.position < self.recording.step_end(here)
            step = here if inside else self.recording.step_of(self.position)
            self.to_position(self.recording.step_end(step))

    def event(self, by: int) -> None:
        self.to_position(self.position + by)

    def notable(self, by: int) -> None:
        """Go to just after the next or previous notable event."""
        if by > 0:
            index = self.recording.next_notable(self.position)
            self.to_position(len(self.recording) if index is None else index + 1)
        else:
            index = self.recording.previous_notable(self.position - 1)
            self.to_position(0 if index is None else index + 1)

    def to_start(self) -> None:
        self.to_position(0)

    def to_step(self, step: int) -> None:
        """Go to the end of a step; if the recording lacks it, to the end of the nearest step."""
        step = min(max(step, self.recording.first_step), self.recording.last_step)
        self.to_position(self.recording.step_end(step))

    def to_position(self, position: int) -> None:
        self._move(position)
        self.state = "paused"

    def to_sequence(self, seq_id: str) -> str:
        """Go to the preemption of a sequence that is preempted, else to its arrival; say which."""
        record = self.view.ledger.sequences.get(seq_id)
        if record is not None and record.phase == "preempted":
            self.to_step(record.preemption.step)
            return "is preempted"
        # A sample or beam does not arrive: for it, the picture stays at this moment.
        if (index := self.recording.arrival(seq_id.removesuffix(".0"))) is not None:
            self.to_position(index + 1)
        return "arrives"

    # ---- internals ----

    def _move(self, position: int) -> None:
        position = min(max(position, 0), len(self.recording))
        if self.state != "live" and self.position <= position <= self.position + _NEAR:
            for event in self.recording.events(self.position, position):
                self.view.apply(event)
            self.position = position
        else:
            self._stand_at(position)

    def _stand_at(self, position: int) -> None:
        self.view, self.position = self.recording.view_at_event(position), position
