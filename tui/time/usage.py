"""How well the memory is used at any moment of a recording: the last step's `KVUsage`, without
folding it all.

A step is measured in its middle, when its plan is complete (`kv_usage` says why), and the state on
the screen is past that. So the events of the last steps are folded once more, on from where the
last answer was; after a jump, from a keyframe. The easy thing to get wrong is to begin in the
middle of a step: its plan would be incomplete.
"""

from minivllm.events.kv_usage import KVUsage, KVUsageMeter
from minivllm.tui.time.transport import Transport

_NEAR = 1000
"""Up to so many events are folded on; further away a keyframe is nearer."""


class UsageFollower:
    """Follows one transport."""

    def __init__(self) -> None:
        self._meter: KVUsageMeter | None = None
        self._position = 0

    def usage_at(self, transport: Transport) -> KVUsage | None:
        """Of the last step that had ended at the transport's position; None if nothing ran in
        it.
        """
        recording, position = transport.recording, transport.position
        if self._meter is None or not self._position <= position <= self._position + _NEAR:
            # From the beginning of the step before this one: this one may be under way.
            self._position = self._step_before(recording, self._step_before(recording, position))
            self._meter = KVUsageMeter(
                recording.header, recording.view_at_event(self._position).fold
            )
        for event in recording.events(self._position, position):
            self._meter.apply(event)
        self._position = position
        del self._meter.samples[:-1]
        return self._meter.samples[0] if self._meter.samples else None

    @staticmethod
    def _step_before(recording, position: int) -> int:
        """Where the step begins that the event before `position` belongs to."""
        return recording.step_begin(recording.step_of(position - 1)) if position else 0
