"""Latencies from events: time to first token, and time between tokens.

The time between tokens is measured in seconds, and in tokens that the model computed in between for
all sequences. If a long prompt delays other sequences, this number shows the delay on any
machine, even on a busy one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from minivllm.events import types as ev
from minivllm.events.ledger import RequestLedger


@dataclass(slots=True)
class Latencies:
    """Latencies of a run, one entry per request or per pair of neighbouring tokens.

    Tokens that a sequence got in the same step, after accepted drafts, are no such pair.
    """

    time_to_first_token: list[float] = field(default_factory=list)
    """Seconds from a request's arrival to its first token."""
    between_tokens: list[float] = field(default_factory=list)
    """Seconds from one token of a sequence to its next."""
    tokens_between_tokens: list[int] = field(default_factory=list)
    """Computed tokens of all sequences between the two tokens, with the second token's step."""


def measure_latencies(events: Iterable[ev.Event]) -> Latencies:
    latencies, ledger = Latencies(), RequestLedger()
    num_computed = 0
    computed_at_token: dict[str, int] = {}  # sequence -> `num_computed` at its last token
    for event in events:
        match event:
            case ev.StepScheduled():
                num_computed += event.num_tokens
            case ev.RequestArrived():
                ledger.arrived(event)
            case ev.RequestForked():
                ledger.forked(event)
                # A beam starts with its parent's tokens; a sample still waits for its first token.
                computed_at_token[event.seq_id] = computed_at_token.get(event.parent, 0)
            case ev.TokenSampled():
                gap = ledger.sampled(event)
                record = ledger.sequences[event.seq_id]
                if gap is not None:
                    if gap:
                        latencies.between_tokens.append(gap)
                        latencies.tokens_between_tokens.append(
                            num_computed - computed_at_token[event.seq_id]
                        )
                elif record.request.num_first_tokens == 1:
                    latencies.time_to_first_token.append(record.time_to_first_token)
                computed_at_token[event.seq_id] = num_computed
    return latencies
