"""Events of requests and their sequences, from arrival to end."""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event

DeferReason = Literal[
    "no_blocks",
    "token_budget",
    "max_num_seqs",
    "preempted_this_step",
    # Only the baselines defer for the reasons below.
    "no_contiguous_run",
    "static_batch",
    "batch_delay",
]


class RequestArrived(Event, tag="request.arrived"):
    """A request was queued; its first sequence is at `position` of the waiting queue."""

    request_id: str
    seq_id: str
    position: int
    prompt_token_ids: list[int]
    """The prompt as the model gets it, with the tokens that chat template and tokenizer add."""
    max_tokens: int
    """Greatest number of output tokens of each of its sequences."""
    priority: int = 0
    """Lower is first, if the scheduling policy is `priority`."""
    prompt: str | None = None
    """Text of the prompt; None if only token ids were given."""
    n: int = 1
    """Number of answers wanted."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.add_request"


class RequestAdmitted(Event, tag="request.admitted"):
    """A waiting sequence got a batch slot. Its hits and allocations are the events before."""

    seq_id: str
    slot: int
    num_cached_tokens: int
    """Tokens found in the prefix cache."""
    num_computed_tokens: int
    """Where the first chunk starts: after the cached tokens, or one before if all were cached."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._admit"


class RequestResumed(Event, tag="request.resumed"):
    """A preempted sequence got a slot again and recomputes what the prefix cache no longer has.

    The fields are those of `request.admitted`.
    """

    seq_id: str
    slot: int
    num_cached_tokens: int
    num_computed_tokens: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._admit"


class RequestDeferred(Event, tag="request.deferred"):
    """The first waiting sequence was not admitted in this step; the ones behind it wait for it.

    `need` and `free` are in blocks, tokens or batch slots, as `reason` says. `no_contiguous_run`:
    `free` is the longest run of neighbouring free blocks. `static_batch`: `need` sequences must end
    first. `batch_delay`: `need` sequences are waited for, and `free` have arrived.
    """

    seq_id: str
    reason: DeferReason
    """What was short."""
    need: int
    """How much the sequence needs."""
    free: int
    """How much was free."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._defer"


class RequestPreempted(Event, tag="request.preempted"):
    """A running sequence lost its blocks and slot to `victim_of` and waits at `position`."""

    seq_id: str
    victim_of: str
    """The sequence that needed the room."""
    need: int
    """Blocks that `victim_of` needed; if as many were free, it lacked a batch slot. 0: `victim_of`
    failed before it wrote a shared block."""
    free: int
    """Blocks that were free."""
    position: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._preempt"


class RequestForked(Event, tag="request.forked"):
    """A running sequence got a sibling with the same tokens, which shares all blocks of `parent`.

    Its batch slot is `slot`; it is at `position` of the running sequences.
    """

    seq_id: str
    """The new sequence."""
    parent: str
    """The sequence that was forked."""
    slot: int
    position: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.fork"


class RequestFinished(Event, tag="request.finished"):
    """A sequence finished. The events before this one released its blocks."""

    seq_id: str
    reason: Literal["stop", "length"]
    """`length`: it reached `max_tokens` or the greatest context length."""
    stop_reason: int | str | None = None
    """The stop token id or stop string; None for end-of-sequence and for `length`."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"


class BeamPruned(Event, tag="request.beam_pruned"):
    """A beam was dropped, because none of its candidates was among the best.

    The events before this one released its blocks.
    """

    seq_id: str
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"


class BeamsFound(Event, tag="request.beams_found"):
    """A beam search is over; its best texts are the output of the request.

    Right after this event the beams end, `seq_id` last. A text may have been finished long before,
    so the texts can differ from those of the last beams.
    """

    seq_id: str
    texts: list[str]
    """The texts, best first."""
    logprobs: list[float]
    """Log-probability of each text, over all its tokens."""
    rule: ClassVar[str] = "minivllm.engine.beams:BeamDriver._finish"


class RequestAborted(Event, tag="request.aborted"):
    """A sequence, waiting or running, was ended by its caller or by an error."""

    seq_id: str
    error: str | None = None
    """What failed; None if the caller ended it."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"
