"""How long tokens took to come, from events: to the first one, and from each to the next.

In seconds, and in tokens. The second is the number of tokens that went through the model, for anybody, from
one token of a sequence to its next: a long prompt that stalls everybody shows there on any machine, and in a
test, where seconds would say how busy the machine was.

The easy thing to get wrong is the preempted sequence: its wait until it runs again is a wait between two of
its tokens, and no event of its own ends it, so a sequence is followed from token to token and nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from minivllm.events import types as ev


@dataclass(slots=True)
class Latencies:
    """Of a whole run; one entry a request, or a pair of neighbouring tokens."""

    time_to_first_token: list[float] = field(default_factory=list)
    """Seconds from a request's arrival to the first token of its first sequence."""
    between_tokens: list[float] = field(default_factory=list)
    """Seconds from one token of a sequence to its next."""
    tokens_between_tokens: list[int] = field(default_factory=list)
    """Tokens computed meanwhile, over all sequences, the step of the next token included."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """When a sequence got its last token."""

    t: float
    num_computed: int


def measure_latencies(events: Iterable[ev.Event]) -> Latencies:
    """From all events of a run, in order."""
    latencies = Latencies()
    arrived: dict[str, float] = {}
    last_token: dict[str, _Mark] = {}
    num_computed = 0
    for event in events:
        match event:
            case ev.StepScheduled():
                num_computed += event.num_tokens
            case ev.RequestArrived():
                arrived[event.seq_id] = event.t
            case ev.RequestForked():
                # A sample's first token comes with its sibling's; a beam has its parent's tokens already.
                if event.parent in last_token:
                    last_token[event.seq_id] = last_token[event.parent]
            case ev.TokenSampled():
                mark = last_token.get(event.seq_id)
                if mark is not None:
                    latencies.between_tokens.append(event.t - mark.t)
                    latencies.tokens_between_tokens.append(num_computed - mark.num_computed)
                elif event.seq_id in arrived:
                    latencies.time_to_first_token.append(event.t - arrived[event.seq_id])
                last_token[event.seq_id] = _Mark(event.t, num_computed)
    return latencies
