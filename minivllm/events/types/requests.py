"""Events of requests and their sequences: from the door to the end."""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event

DeferReason = Literal[
    "no_blocks",
    "token_budget",
    "max_num_seqs",
    "preempted_this_step",
    # Only the baselines to be compared with defer for these.
    "no_contiguous_run",
    "static_batch",
    "batch_delay",
]


class RequestArrived(Event, tag="request.arrived"):
    """A request passed the door; its first sequence stands at `position` of the waiting queue (0 is
    next).
    """

    request_id: str
    seq_id: str
    position: int
    prompt_token_ids: list[int]
    """The prompt as the model reads it, with the tokens that the chat template or the tokenizer
    adds.
    """
    max_tokens: int
    """Most output tokens of each of its sequences."""
    priority: int = 0
    """Lower is sooner, where the scheduling policy is `priority`."""
    prompt: str | None = None
    """Its text; None if it came as token ids."""
    n: int = 1
    """Answers that are wanted."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.add_request"


class RequestAdmitted(Event, tag="request.admitted"):
    """A waiting sequence got a batch slot. Its block hits and allocations are the events before
    this one.
    """

    seq_id: str
    slot: int
    num_cached_tokens: int
    """Tokens whose keys and values were found in the prefix cache."""
    num_computed_tokens: int
    """Where the first chunk starts: the cached tokens, but one less when the whole prompt was
    cached.
    """
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._admit"


class RequestResumed(Event, tag="request.resumed"):
    """A preempted sequence got a slot again; the same fields, and it recomputes what the cache has
    lost.
    """

    seq_id: str
    slot: int
    num_cached_tokens: int
    num_computed_tokens: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._admit"


class RequestDeferred(Event, tag="request.deferred"):
    """The first waiting sequence was not admitted this step, and why. Those behind it wait for it.

    `need` and `free` are in the unit of the reason: blocks, tokens of budget, or batch slots.
    `no_contiguous_run`: neighbouring blocks, and the longest free run; `static_batch`: `need`
    sequences must end first; `batch_delay`: `need` requests are waited for and `free` have come.
    """

    seq_id: str
    reason: DeferReason
    """What was short."""
    need: int
    """What it would take to admit it."""
    free: int
    """What there was."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._defer"


class RequestPreempted(Event, tag="request.preempted"):
    """A running sequence lost its blocks and slot so that `victim_of` could go on; it waits at
    `position`.
    """

    seq_id: str
    victim_of: str
    """The sequence that got what was freed."""
    need: int
    """Blocks that `victim_of` needed. 0: it failed before it had written blocks that both of them
    share.
    """
    free: int
    """Blocks that were free then."""
    position: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._preempt"


class RequestForked(Event, tag="request.forked"):
    """A running sequence got a sibling with the same tokens: it owns every block of `parent` too.

    It takes batch slot `slot` and stands at `position` of the running sequences.
    """

    seq_id: str
    """The new one."""
    parent: str
    """The one that was forked."""
    slot: int
    position: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.fork"


class RequestFinished(Event, tag="request.finished"):
    """A sequence ended by itself. Its blocks were released in the events before this one."""

    seq_id: str
    reason: Literal["stop", "length"]
    """`length`: at `max_tokens` or at the end of the context."""
    stop_reason: int | str | None = None
    """The stop token's id or the stop string; None at the model's own end-of-sequence token, and
    for `length`.
    """
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"


class BeamPruned(Event, tag="request.beam_pruned"):
    """A beam died: no candidate of its own was among the best. Its blocks were released just
    before.
    """

    seq_id: str
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"


class BeamsFound(Event, tag="request.beams_found"):
    """A beam search is over: what it found, best first. Its beams end right after; the last of them
    is `seq_id`.

    These are the request's output, and not the beams' own texts: a result may have ended long ago.
    """

    seq_id: str
    texts: list[str]
    """Best first."""
    logprobs: list[float]
    """Of each text, over all its tokens."""
    rule: ClassVar[str] = "minivllm.engine.beams:BeamDriver._finish"


class RequestAborted(Event, tag="request.aborted"):
    """A sequence was ended from outside, waiting or running, or because it failed."""

    seq_id: str
    error: str | None = None
    """What failed, in one sentence; None if somebody wanted it to end."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"
