"""The lives of requests as nested slices: a request, in it its phases; beside it its forks, with
theirs.

  ada | ada ------------------------------------------------|
      | queued | prefill | decode | preempted | prefill |...|
  ada.1         | ada.1 --------------------| ada.4 ---|  a lane: who forks takes the first free one
                | decode                    | decode   |

Knows events and a trace to draw into, and no engine. The easy thing to get wrong is a beam search:
its beams fork and die by the hundred, and the first sequence, whose phases stand in the request's
own slice, may die long before the request. So forks share lanes, one after the other, and a request
ends with the last of its sequences.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from minivllm.events import types as ev
from minivllm.events.perfetto.chrome_trace import ChromeTrace

CATEGORY = "request"
LONGEST_TEXT = 1000
"""Characters of a prompt or an answer that are kept."""


@dataclass(slots=True)
class _Request:
    """One that has not ended."""

    name: str
    lanes: list[int]
    """Ids of asynchronous slices; the first is the request's own."""
    free_lanes: list[int] = field(default_factory=list)
    """Indices of those that no fork is in; a heap."""
    num_sequences: int = 1


@dataclass(slots=True)
class _Life:
    """One sequence that has not ended."""

    request: _Request
    lane: int
    phase: str


class RequestLives:
    """Draws into `trace`; `ts` is when, in microseconds."""

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
        """A sequence begins in the phase that its parent is in."""
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
        """The prefill begins, or what was lost is computed again."""
        about = {"slot": event.slot, "cached_tokens": event.num_cached_tokens}
        self._turn_to("prefill", event.seq_id, ts, about)

    def sampled(self, event: ev.TokenSampled, ts: int) -> None:
        """All of its tokens are computed: it decodes, if it did not already."""
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
        # How it ended stands at the end of its own slice; the first sequence has the request's, if
        # that ends with it.
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
        """Nothing more is known of anybody."""
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
    """`text`, or its beginning if it is long."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
