"""`EngineState`: the complete visible state of an engine between two phases, as plain data.

`LLMEngine.inspect()` reads the state from the engine's objects, and `Fold` builds it from events
alone; both results must be equal. Finished sequences are not in it (see `Fold.history`).

`gc=False`: there are thousands of these objects, and no object can be part of a cycle.
"""

from collections.abc import MutableSequence, Sequence

import msgspec

from minivllm.events.types import DeferReason, LogHeader, RequestSampling, ScheduledKind


class BlockState(msgspec.Struct, gc=False):
    """One physical block. A free block with a hash can still be hit until it is reused."""

    ref_cnt: int = 0
    hash: str | None = None
    parent: str | None = None


class SequenceGrammar(msgspec.Struct, frozen=True, gc=False):
    """What the grammar of a watched sequence allowed last: the fields of `grammar.state`."""

    position: int
    num_allowed: int
    refused_token_id: int | None = None
    refused_probability: float = 0.0


class SequenceState(msgspec.Struct, gc=False):
    """One waiting or running sequence of a request."""

    request_id: str
    status: str
    """WAITING, RUNNING, PREEMPTED or WAITING_FOR_REMOTE_KVS (`RequestStatus`)."""
    num_prompt_tokens: int
    output_token_ids: MutableSequence[int] = []
    """A list; in a fold, an `array`."""
    text: str = ""
    """The visible part of the output."""
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    slot: int | None = None
    block_table: list[int] = []
    deferred: tuple[DeferReason, int, int] | None = None
    """Why the sequence was last deferred: (reason, need, free)."""
    grammar: SequenceGrammar | None = None
    """None until a watched sequence with a grammar gets a token."""

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + len(self.output_token_ids)


class RequestState(msgspec.Struct, gc=False):
    """One unfinished request."""

    prompt_token_ids: Sequence[int]
    """A list; in a fold, an `array`."""
    max_tokens: int
    priority: int = 0
    prompt: str | None = None
    arrival_time: float = 0.0
    seq_ids: list[str] = []
    """Ids of the unfinished sequences."""
    sampling: RequestSampling | None = None
    """How the request is sampled; None in recordings of older versions."""


class ScheduledState(msgspec.Struct, gc=False):
    """A sequence's share of the current step's token budget."""

    seq_id: str
    num_tokens: int
    kind: ScheduledKind
    num_computed_tokens: int
    draft_token_ids: list[int] = []
    """Drafts that are verified in this step; `num_tokens` counts them."""
    num_accepted: int | None = None
    """How many drafts were right; None if there are none or they are not verified yet."""


class LoadState(msgspec.Struct, gc=False):
    """Blocks on their way to a waiting sequence, in the order of its block table."""

    block_ids: list[int]
    host_blocks: list[int]
    source: str = "host"


class Counters(msgspec.Struct, gc=False):
    """Totals since the engine started. A total that vLLM has too has vLLM's name."""

    finished_requests: int = 0
    aborted_requests: int = 0
    num_preemptions: int = 0
    prefix_cache_queries: int = 0
    """Tokens looked up in the prefix cache at first admission."""
    prefix_cache_hits: int = 0
    """Tokens found by these lookups."""
    resumed_hit_tokens: int = 0
    """Tokens that resumed sequences found in the prefix cache."""
    external_prefix_cache_hits: int = 0
    """Tokens that were loaded; the two counters above have them, too."""
    evicted_blocks: int = 0
    stored_blocks: int = 0
    """Blocks copied to the host."""
    lost_blocks: int = 0
    """Copies that the host has lost."""
    forked_sequences: int = 0
    copied_blocks: int = 0
    prompt_tokens: int = 0
    """Prompt tokens of all requests that have arrived."""
    generation_tokens: int = 0
    scheduled_tokens: int = 0
    spec_decode_num_drafts: int = 0
    """How often drafts of a sequence were verified."""
    spec_decode_num_draft_tokens: int = 0
    spec_decode_num_accepted_tokens: int = 0
    invariant_violations: int = 0


class EngineState(msgspec.Struct, gc=False):
    """The engine between two phases."""

    step: int
    blocks: list[BlockState]
    free_queue: list[int]
    """Block ids in the order of reuse."""
    waiting: list[str]
    """Sequence ids, next first."""
    running: list[str]
    requests: dict[str, RequestState]
    sequences: dict[str, SequenceState]
    budget: int
    """Token budget of the last planned step."""
    scheduled: list[ScheduledState]
    """How the budget was spent."""
    max_num_seqs: int
    """The current value; a recording's header has the value that the engine was built with."""
    max_num_batched_tokens: int
    counters: Counters
    token_pieces: dict[int, str] = {}
    """Text of each token id that has occurred while a listener watched (`tokens.named`)."""
    host_blocks: list[BlockState] = []
    """The host's blocks; `ref_cnt` counts the loads that read a block."""
    host_queue: list[int] = []
    """Ids of the host's blocks that no load reads, in the order of reuse."""
    loads: dict[str, LoadState] = {}
    """By the id of the sequence that waits for its blocks."""
    leases: dict[int, list[int]] = {}
    """Ids of the blocks that are kept for another engine, by the number of the lease."""

    @classmethod
    def idle(cls, header: LogHeader) -> "EngineState":
        """Return the state of a new engine: all blocks are free, the lowest id is first."""
        return cls(
            step=0,
            blocks=[BlockState() for _ in range(header.num_blocks)],
            free_queue=list(range(header.reserved_blocks, header.num_blocks)),
            waiting=[],
            running=[],
            requests={},
            sequences={},
            budget=0,
            scheduled=[],
            max_num_seqs=header.max_num_seqs,
            max_num_batched_tokens=header.max_num_batched_tokens,
            counters=Counters(),
            host_blocks=[BlockState() for _ in range(header.num_cpu_blocks)],
            host_queue=list(range(header.num_cpu_blocks)),
        )


class FinishedSequence(msgspec.Struct, gc=False):
    """What a view shows of a sequence that has finished."""

    seq_id: str
    request_id: str
    prompt: str | None
    text: str
    reason: str
    """`stop`, `length` or `abort`."""
    num_tokens: int
    step: int
