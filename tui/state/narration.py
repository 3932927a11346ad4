"""`Narration`: which decision the narrated line shows, so that each sentence can be read."""

from minivllm.tui.state.decisions import Decision

SECONDS_TO_READ = 2.0
SECONDS_TO_WATCH = 3.0
STEPS_TO_AGE = 30
"""An older decision is no news: it is not shown, unless it could not be read yet."""


class Narration:
    def __init__(self, begins_after: float = 0.0) -> None:
        """begins_after: seconds to read what the run demonstrates"""
        self._begins_after = begins_after
        self.shown: Decision | None = None
        self._until: float | None = None
        """Before this time, the sentence stays while the picture moves on."""
        self._motion: str | None = None

    def is_old(self, step: int, now: float) -> bool:
        return step - self.shown.step > STEPS_TO_AGE and now >= self._until

    def look(self, decisions: list[Decision], now: float, motion: str | None) -> Decision | None:
        """While the picture moves, the most notable decision since the last one; when it stands
        still or has jumped, that of the last step that has one.

        motion: `live`, `playing`, or None while it stands still; a change of it is a jump
        """
        if self._until is None:
            self._until, self._motion = now + self._begins_after, motion
        goes_on = motion is not None and motion == self._motion
        self._motion = motion
        told = [decision for decision in decisions if decision.rank >= 0]
        if self.shown is not None and (not told or told[-1].seq < self.shown.seq):
            self.shown = None  # the picture has moved back
        if goes_on and now < self._until:
            return self.shown
        if self.shown is None or not goes_on:
            newer = [decision for decision in told if decision.step == told[-1].step]
        else:
            newer = [decision for decision in told if decision.seq > self.shown.seq]
            recent = newer[-1].step - STEPS_TO_AGE if newer else 0
            newer = [decision for decision in newer if decision.step >= recent]
        if newer:
            self.shown = max(newer, key=lambda decision: (decision.rank, decision.seq))
            self._until = now + SECONDS_TO_READ * (motion is not None)
        return self.shown
