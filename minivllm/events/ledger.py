"""`RequestLedger`: unfinished requests and the times of their tokens, folded from events.

`/metrics` and `minivllm compare` use it. The dashboard and the simulator keep their own records,
with the same `TokenTimes`.
"""

from dataclasses import dataclass, replace

from minivllm.events import types as ev


@dataclass(slots=True)
class TokenTimes:
    """When the output tokens of one sequence arrived, in seconds on the engine's clock."""

    arrived: float
    first_token: float | None = None
    last_token: float | None = None
    num_tokens: int = 0

    def add_token(self, t: float) -> float | None:
        """Count a token. Return the seconds since the last token; None for the first token."""
        before, self.last_token = self.last_token, t
        self.num_tokens += 1
        if before is None:
            self.first_token = t
            return None
        return t - before

    @property
    def time_to_first_token(self) -> float | None:
        return None if self.first_token is None else self.first_token - self.arrived

    @property
    def time_per_output_token(self) -> float | None:
        """Mean seconds between two tokens; None before the second token."""
        if self.num_tokens < 2:
            return None
        return (self.last_token - self.first_token) / (self.num_tokens - 1)


@dataclass(slots=True)
class RequestRecord:
    num_prompt_tokens: int
    max_tokens: int
    n: int
    num_sequences: int = 1
    """Number of unfinished sequences."""
    num_first_tokens: int = 0
    """Number of sequences with a token. From 1 on, the prompt is computed."""
    most_tokens: int = 0
    """Number of output tokens of the longest sequence that has ended."""


@dataclass(slots=True, kw_only=True)
class SequenceRecord(TokenTimes):
    """An unfinished sequence. A fork starts with the times and tokens of its parent."""

    request: RequestRecord
    admitted: float | None = None
    """When the sequence first got a batch slot."""
    num_cached_tokens: int = 0
    """Prompt tokens found in the prefix cache at the first admission."""
    num_preemptions: int = 0


class RequestLedger:
    """One method for each event of a request. Call them in order, from the run's first event."""

    def __init__(self) -> None:
        self.sequences: dict[str, SequenceRecord] = {}
        self.running: set[str] = set()

    def arrived(self, event: ev.RequestArrived) -> None:
        request = RequestRecord(len(event.prompt_token_ids), event.max_tokens, event.n)
        self.sequences[event.seq_id] = SequenceRecord(event.t, request=request)

    def admitted(self, event: ev.RequestAdmitted | ev.RequestResumed) -> SequenceRecord:
        self.running.add(event.seq_id)
        record = self.sequences[event.seq_id]
        if record.admitted is None:
            record.admitted, record.num_cached_tokens = event.t, event.num_cached_tokens
        return record

    def preempted(self, event: ev.RequestPreempted) -> None:
        self.running.remove(event.seq_id)
        self.sequences[event.seq_id].num_preemptions += 1

    def forked(self, event: ev.RequestForked) -> None:
        self.running.add(event.seq_id)
        # The fork inherits the parent's waiting time, but not its preemptions.
        record = self.sequences[event.seq_id] = replace(
            self.sequences[event.parent], num_preemptions=0
        )
        record.request.num_sequences += 1

    def sampled(self, event: ev.TokenSampled) -> float | None:
        """Count a token. Return the seconds since the sequence's last token, or None."""
        record = self.sequences[event.seq_id]
        gap = record.add_token(event.t)
        if gap is None:
            record.request.num_first_tokens += 1
        return gap

    def ended(
        self, event: ev.RequestFinished | ev.RequestAborted | ev.BeamPruned
    ) -> SequenceRecord:
        self.running.discard(event.seq_id)
        record = self.sequences.pop(event.seq_id)
        record.request.num_sequences -= 1
        record.request.most_tokens = max(record.request.most_tokens, record.num_tokens)
        return record
