"""`EngineState`: all that can be known of an engine between two phases of a step, as plain data.

Two roads lead here and must meet: `LLMEngine.inspect()` reads it from the engine's own objects, and
`Fold` builds it from events alone. Neither calls the other. Finished sequences are no part of it;
the engine has forgotten them (`Fold.history` keeps the last ones for display).

None of these can be part of a cycle, and there are thousands: hence `gc=False`.
"""

from collections.abc import MutableSequence, Sequence

import msgspec

from minivllm.events.types import DeferReason, LogHeader, ScheduledKind


class BlockState(msgspec.Struct, gc=False):
    """One physical block. Free with a hash means cached: still a hit, until it is reused."""

    ref_cnt: int = 0
    hash: str | None = None
    parent: str | None = None


class SequenceState(msgspec.Struct, gc=False):
    """One sequence of a request, waiting or running."""

    request_id: str
    status: str
    """WAITING, RUNNING or PREEMPTED (`RequestStatus`)."""
    num_prompt_tokens: int
    output_token_ids: MutableSequence[int] = []
    """A list; in a fold an array."""
    text: str = ""
    """The output as far as it is visible."""
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    slot: int | None = None
    block_table: list[int] = []
    deferred: tuple[DeferReason, int, int] | None = None
    """Why it still waits: (reason, need, free)."""

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + len(self.output_token_ids)


class RequestState(msgspec.Struct, gc=False):
    """One unfinished request."""

    prompt_token_ids: Sequence[int]
    """A list; in a fold an array."""
    max_tokens: int
    priority: int = 0
    prompt: str | None = None
    arrival_time: float = 0.0
    seq_ids: list[str] = []
    """Its unfinished sequences."""


class ScheduledState(msgspec.Struct, gc=False):
    """What one sequence got of the current step's token budget."""

    seq_id: str
    num_tokens: int
    kind: ScheduledKind
    num_computed_tokens: int


class Counters(msgspec.Struct, gc=False):
    """Running totals since the engine started (vLLM's metric names where it has one)."""

    finished_requests: int = 0
    aborted_requests: int = 0
    num_preemptions: int = 0
    prefix_cache_queries: int = 0
    """Tokens looked up in the prefix cache at first admission."""
    prefix_cache_hits: int = 0
    """Tokens found there."""
    resumed_hit_tokens: int = 0
    """Tokens that preempted sequences found again when they resumed."""
    evicted_blocks: int = 0
    forked_sequences: int = 0
    copied_blocks: int = 0
    prompt_tokens: int = 0
    """Prompt tokens of all requests that arrived."""
    generation_tokens: int = 0
    scheduled_tokens: int = 0
    invariant_violations: int = 0


class EngineState(msgspec.Struct, gc=False):
    """The engine between two phases."""

    step: int
    blocks: list[BlockState]
    free_queue: list[int]
    """Block ids in the order in which they will be reused."""
    waiting: list[str]
    """Sequence ids, next first."""
    running: list[str]
    requests: dict[str, RequestState]
    sequences: dict[str, SequenceState]
    budget: int
    """Of the last step that was planned."""
    scheduled: list[ScheduledState]
    """How it was spent."""
    max_num_seqs: int
    """As it is now; the recording's header says what the engine was built with, and so for the next
    one.
    """
    max_num_batched_tokens: int
    counters: Counters

    @classmethod
    def idle(cls, header: LogHeader) -> "EngineState":
        """An engine that has not done anything: all blocks are free, the lowest id is next."""
        return cls(
            step=0,
            blocks=[BlockState() for _ in range(header.num_blocks)],
            free_queue=list(range(header.num_blocks)),
            waiting=[],
            running=[],
            requests={},
            sequences={},
            budget=0,
            scheduled=[],
            max_num_seqs=header.max_num_seqs,
            max_num_batched_tokens=header.max_num_batched_tokens,
            counters=Counters(),
        )


class FinishedSequence(msgspec.Struct, gc=False):
    """What a view shows of a sequence that the engine has forgotten."""

    seq_id: str
    request_id: str
    prompt: str | None
    text: str
    reason: str
    """One of `stop`, `length`, `abort`."""
    num_tokens: int
    step: int
