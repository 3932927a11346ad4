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
from minivllm.events.perfetto.chrome_trace import ChromeTrace

CATEGORY = "request"
LONGEST_TEXT = 1000
"""Number of characters to which a longer prompt or answer is cut."""


@dataclass(slots=True)
class _Request:
    name: str
    lanes: list[int]
    """For each lane, the id of its asynchronous slices. Lane 0 is the request's own."""
    free_lanes: list[int] = field(default_factory=list)
    """Indices of lanes that no fork uses now. A heap."""
    num_sequences: int = 1


@dataclass(slots=True)
class _Life:
    request: _Request
    lane: int
    phase: str


class RequestLives:
    """Draws into `trace`; `ts` is a time in microseconds."""

    def __init__(self, trace: ChromeTrace) -> None:
        self._trace = trace
        self._lives: dict[str, _Life] = {}
        self._next_lane_id = 1

    def arrived(self, event: ev.RequestArrived, ts: int) -> None:
        request = _Request(event.request_id, [self._new_lane_id()])
        life = self._lives[event.seq_id] = _Life(request, 0, "queued")
        about = {
            "prompt": cut(event.prompt or ""),
            "prompt_tokens": len(event.prompt_token_ids),
            "max_tokens": event.max_tokens,
            "priority": event.priority,
        }
        self._begin(life, request.name, ts, about)
        self._begin(life, life.phase, ts)

    def forked(self, event: ev.RequestForked, ts: int) -> None:
        """Begin a fork, in the phase of its parent."""
        parent = self._lives[event.parent]
        request = parent.request
        if not request.free_lanes:
            request.free_lanes.append(len(request.lanes))
            request.lanes.append(self._new_lane_id())
        request.num_sequences += 1
        life = self._lives[event.seq_id] = _Life(request, heappop(request.free_lanes), parent.phase)
        self._begin(life, event.seq_id, ts, {"parent": event.parent, "slot": event.slot})
        self._begin(life, life.phase, ts)

    def entered(self, event: ev.RequestAdmitted | ev.RequestResumed, ts: int) -> None:
        """Begin the prefill of an admitted or resumed sequence."""
        about = {"slot": event.slot, "cached_tokens": event.num_cached_tokens}
        self._turn_to("prefill", event.seq_id, ts, about)

    def sampled(self, event: ev.TokenSampled, ts: int) -> None:
        """Begin the decode phase if the token is the first since the prefill."""
        if self._lives[event.seq_id].phase != "decode":
            self._turn_to("decode", event.seq_id, ts, {})

    def preempted(self, event: ev.RequestPreempted, ts: int) -> None:
        about = {
            "victim_of": event.victim_of,
            "blocks_needed": event.need,
            "blocks_free": event.free,
        }
        self._turn_to("preempted", event.seq_id, ts, about)

    def ended(self, seq_id: str, ts: int, about: dict[str, object]) -> None:
        life = self._lives.pop(seq_id)
        request = life.request
        request.num_sequences -= 1
        # The first sequence has no slice of its own: write `about` on the request's slice or, if
        # the request continues, on the phase's.
        in_phase = life.lane == 0 and request.num_sequences > 0
        self._end(life, life.phase, ts, about if in_phase else {})
        if life.lane:
            self._end(life, seq_id, ts, about)
            heappush(request.free_lanes, life.lane)
        if not request.num_sequences:
            self._trace.end(
                request.lanes[0], CATEGORY, request.name, ts, {} if life.lane else about
            )

    def cut_off(self, ts: int, why: str) -> None:
        """End all lives at `ts`, because later events are unknown."""
        for seq_id in list(self._lives):
            self.ended(seq_id, ts, {"cut_off": why})

    def _turn_to(self, phase: str, seq_id: str, ts: int, about: dict[str, object]) -> None:
        life = self._lives[seq_id]
        self._end(life, life.phase, ts)
        life.phase = phase
        self._begin(life, phase, ts, about)

    def _begin(
        self, life: _Life, name: str, ts: int, about: dict[str, object] | None = None
    ) -> None:
        self._trace.begin(life.request.lanes[life.lane], CATEGORY, name, ts, about or {})

    def _end(self, life: _Life, name: str, ts: int, about: dict[str, object] | None = None) -> None:
        self._trace.end(life.request.lanes[life.lane], CATEGORY, name, ts, about or {})

    def _new_lane_id(self) -> int:
        self._next_lane_id += 1
        return self._next_lane_id - 1


def cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
