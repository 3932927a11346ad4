"""Draw the lives of requests as nested slices. Each request has lanes, one below the other.

  ada | ada ------------------------------------------------|  the request
      | queued | prefill | decode | preempted | prefill |...|  phases of its first sequence
  ada.1         | ada.1 --------------------| ada.4 ---|       a lane for forks
                | decode                    | decode   |       phases of the forks

A beam search forks and prunes hundreds of beams, so a lane is used again: a new fork takes the
first free lane. The first sequence may end early. The request ends when its last sequence ends.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from minivllm.events import types as ev
from minivllm.events.ledger import RequestLedger, SequenceRecord
from minivllm.events.perfetto.chrome_trace import ChromeTrace

CATEGORY = "request"
LONGEST_TEXT = 1000
"""Number of characters to which a longer prompt or answer is cut."""


@dataclass(slots=True)
class _Lanes:
    """The lanes of one request."""

    ids: list[int]
    """For each lane, the id of its asynchronous slices. Lane 0 is the request's own."""
    free: list[int] = field(default_factory=list)
    """Indices of lanes that no fork uses now. A heap."""
    of: dict[str, int] = field(default_factory=dict)
    """Unfinished sequence -> index of its lane."""


class RequestLives:
    """Draws the phases of the ledger into `trace`; `ts` is a time in microseconds."""

    def __init__(self, trace: ChromeTrace) -> None:
        self.ledger = RequestLedger()
        self._trace = trace
        self._lanes: dict[str, _Lanes] = {}
        self._next_lane_id = 1

    def arrived(self, event: ev.RequestArrived, ts: int) -> None:
        self.ledger.arrived(event)
        self._lanes[event.request_id] = _Lanes([self._new_lane_id()], of={event.seq_id: 0})
        record = self.ledger.sequences[event.seq_id]
        self._begin(
            record,
            event.request_id,
            ts,
            prompt=cut(event.prompt or ""),
            prompt_tokens=len(event.prompt_token_ids),
            max_tokens=event.max_tokens,
            priority=event.priority,
        )
        self._begin(record, record.phase, ts)

    def forked(self, event: ev.RequestForked, ts: int) -> None:
        self.ledger.forked(event)
        record = self.ledger.sequences[event.seq_id]
        lanes = self._lanes[record.request.request_id]
        if not lanes.free:
            lanes.free.append(len(lanes.ids))
            lanes.ids.append(self._new_lane_id())
        lanes.of[event.seq_id] = heappop(lanes.free)
        self._begin(record, event.seq_id, ts, parent=event.parent, slot=event.slot)
        self._begin(record, record.phase, ts)

    def turned(self, event: ev.Event, ts: int, **about: object) -> None:
        """Draw the sequence's next phase with the facts `about`, if the event begins one."""
        record = self.ledger.sequences[event.seq_id]
        before = record.phase
        self.ledger.apply(event)
        if record.phase != before:
            self._end(record, before, ts)
            self._begin(record, record.phase, ts, **about)

    def ended(self, event: ev.Event, ts: int, text: str) -> None:
        record = self.ledger.ended(event)
        self._close(
            record,
            ts,
            reason=record.end.reason,
            tokens=record.num_tokens,
            preemptions=record.num_preemptions,
            text=cut(text),
        )

    def cut_off(self, ts: int, why: str) -> None:
        """End all lives at `ts`, because later events are unknown."""
        for record in self.ledger.sequences.values():
            self._close(record, ts, cut_off=why)
        self.ledger = RequestLedger()

    def _close(self, record: SequenceRecord, ts: int, **about: object) -> None:
        request, seq_id = record.request.request_id, record.seq_id
        lanes = self._lanes[request]
        lane, is_last = lanes.of[seq_id], len(lanes.of) == 1
        # The first sequence has no slice of its own: write `about` on the request's slice or, if
        # the request continues, on the phase's.
        self._end(record, record.phase, ts, **({} if lane or is_last else about))
        if lane:
            self._end(record, seq_id, ts, **about)
            heappush(lanes.free, lane)
        del lanes.of[seq_id]
        if is_last:
            self._trace.end(lanes.ids[0], CATEGORY, request, ts, {} if lane else about)
            del self._lanes[request]

    def _begin(self, record: SequenceRecord, name: str, ts: int, **about: object) -> None:
        self._trace.begin(self._lane_id(record), CATEGORY, name, ts, about)

    def _end(self, record: SequenceRecord, name: str, ts: int, **about: object) -> None:
        self._trace.end(self._lane_id(record), CATEGORY, name, ts, about)

    def _lane_id(self, record: SequenceRecord) -> int:
        lanes = self._lanes[record.request.request_id]
        return lanes.ids[lanes.of[record.seq_id]]

    def _new_lane_id(self) -> int:
        self._next_lane_id += 1
        return self._next_lane_id - 1


def cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
