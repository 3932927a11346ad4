"""The memory usage (`KVUsage`) at any moment of a recording.

It is that of the moment, so that it matches the block map beside it. At the end of a run, when no
sequence runs any more, it is that of the last step, measured in the middle of it (`kv_usage` gives
the reason). So the last steps are folded again, from the previous answer or from a keyframe.
Folding must begin between two steps, or the first plan is incomplete.
"""

from minivllm.events.kv_usage import KVUsage, KVUsageMeter
from minivllm.events.recording.recording import Recording
from minivllm.tui.time.transport import Transport

_NEAR = 1000
"""Fold up to this many events one by one; for more events, a keyframe is faster."""


class UsageFollower:
    def __init__(self) -> None:
        self._meter: KVUsageMeter | None = None
        self._recording: Recording | None = None
        self._position = 0

    def usage_at(self, transport: Transport) -> KVUsage | None:
        """Usage at this moment; at the end of a run, that of its last step.

        None while no sequence runs, and for a run without a step.
        """
        recording, position = transport.recording, transport.position
        if transport.view.fold.running:
            return KVUsageMeter(recording.header, transport.view.fold).now()
        if not transport.at_end:
            return None
        is_near = self._position <= position <= self._position + _NEAR
        if recording is not self._recording or not is_near:
            self._recording = recording
            # Begin one step earlier, because the current step may be unfinished.
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
        """The position at which the step of the event before `position` begins."""
        return recording.step_begin(recording.step_of(position - 1)) if position else 0
