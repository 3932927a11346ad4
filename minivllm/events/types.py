"""The vocabulary of the event stream: one small struct for each kind of decision.

Whoever folds all events of a run, in order, knows exactly what the engine knows: block tables,
reference counts, the free queue and its order, hashes, queues, counters (`fold.py` does it, and the
tests compare it with `engine.inspect()` after every step). An event therefore says what *changed*,
with its reason, and never carries a copy of state that the reader can work out.

Every event is one flat JSON object: the tag `ev`, the envelope (`seq`, `step`, `t`), its own fields.
`rule` names the function that emits the kind, so that a dashboard can show its source; it is a
class attribute and does not travel. The easy thing to get wrong is order: an event is emitted at
the moment its change is made, so `seq` is also the order in which the changes happened.
"""

from typing import ClassVar, Literal

import msgspec

SCHEMA_NAME = "minivllm.trace"
SCHEMA_VERSION = 1
"""Goes up when an old reader would misread a new log. New kinds and new fields do not need it."""

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
MissReason = Literal["caching_off", "prompt_shorter_than_a_block", "never_seen", "evicted"]
ScheduledKind = Literal["prefill", "decode"]


class LogHeader(msgspec.Struct, tag_field="ev", tag="meta", kw_only=True, omit_defaults=True):
    """First line of every log: what a reader must know before the first event."""

    schema: str = SCHEMA_NAME
    version: int = SCHEMA_VERSION
    engine: str
    """Version of minivllm that wrote the log."""
    model: str
    clock: Literal["monotonic", "virtual"]
    wall: float
    """Unix time, seconds, at the moment when the engine's clock showed `mono`."""
    mono: float
    first_seq: int = 0
    """`seq` of the event after this line; over 0 where a recording begins in the middle of a run."""
    num_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    scheduling_policy: str
    enable_prefix_caching: bool
    config: dict[str, object] = {}
    """Every other option, as given."""


class Event(msgspec.Struct, tag_field="ev", omit_defaults=True, frozen=True):
    """The envelope. `seq` counts events from 0 without a gap; `t` is seconds on the engine's clock."""

    seq: int
    step: int
    t: float
    rule: ClassVar[str]


# ---- requests ----


class RequestArrived(Event, tag="request.arrived"):
    """A request passed the door; its first sequence stands at `position` of the waiting queue (0 is next)."""

    request_id: str
    seq_id: str
    position: int
    prompt_token_ids: list[int]
    max_tokens: int
    priority: int = 0
    prompt: str | None = None
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.add_request"


class RequestAdmitted(Event, tag="request.admitted"):
    """A waiting sequence got a batch slot. Its block hits and allocations are the events before this one."""

    seq_id: str
    slot: int
    num_cached_tokens: int
    """Tokens whose keys and values were found in the prefix cache."""
    num_computed_tokens: int
    """Where the first chunk starts: the cached tokens, but one less when the whole prompt was cached."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._admit"


class RequestResumed(Event, tag="request.resumed"):
    """A preempted sequence got a slot again; the same fields, and it recomputes what the cache has lost."""

    seq_id: str
    slot: int
    num_cached_tokens: int
    num_computed_tokens: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._admit"


class RequestDeferred(Event, tag="request.deferred"):
    """The first waiting sequence was not admitted this step, and why. Those behind it wait for it.

    `need` and `free` are in the unit of the reason: blocks, tokens of budget, or batch slots. `no_contiguous_run`:
    neighbouring blocks, and the longest free run; `static_batch`: `need` sequences must end first; `batch_delay`:
    `need` requests are waited for and `free` have come.
    """

    seq_id: str
    reason: DeferReason
    need: int
    free: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._defer"


class RequestPreempted(Event, tag="request.preempted"):
    """A running sequence lost its blocks and slot so that `victim_of` could go on; it waits at `position`."""

    seq_id: str
    victim_of: str
    need: int
    """Blocks that `victim_of` needed."""
    free: int
    """Blocks that were free then."""
    position: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._preempt"


class RequestForked(Event, tag="request.forked"):
    """A running sequence got a sibling with the same tokens: it owns every block of `parent` too.

    It takes batch slot `slot` and stands at `position` of the running sequences.
    """

    seq_id: str
    parent: str
    slot: int
    position: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.fork"


class RequestFinished(Event, tag="request.finished"):
    """A sequence ended by itself. Its blocks were released in the events before this one."""

    seq_id: str
    reason: Literal["stop", "length"]
    stop_reason: int | str | None = None
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"


class BeamPruned(Event, tag="request.beam_pruned"):
    """A beam died: no candidate of its own was among the best. Its blocks were released just before."""

    seq_id: str
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"


class RequestAborted(Event, tag="request.aborted"):
    """A sequence was ended from outside, waiting or running."""

    seq_id: str
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"


# ---- steps ----


class StepBegin(Event, tag="step.begin"):
    """The scheduler starts to plan a step with `budget` tokens to give."""

    budget: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.schedule"


class StepScheduled(Event, tag="step.scheduled"):
    """The plan gives `num_tokens` tokens to a sequence, starting at position `num_computed_tokens`."""

    seq_id: str
    num_tokens: int
    kind: ScheduledKind
    num_computed_tokens: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._commit"


class StepEnd(Event, tag="step.end"):
    """The step is over; where its time went, in seconds (all zero on the virtual clock)."""

    used: int
    """Tokens of the budget that were given out."""
    t_schedule: float
    t_prepare: float
    t_model: float
    t_sample: float
    rule: ClassVar[str] = "minivllm.engine:LLMEngine._step"


# ---- blocks ----


class BlockAllocated(Event, tag="block.allocated"):
    """A block left the free queue (its head, if memory is paged) and became entry `logical` of a sequence's block table."""

    block_id: int
    seq_id: str
    logical: int
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.allocate_slots"


class BlockHashed(Event, tag="block.hashed"):
    """A full block got its name in the prefix cache. `parent` is the hash before it, None at a root."""

    block_id: int
    hash: str
    parent: str | None
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool.cache_block"


class BlockHit(Event, tag="block.hit"):
    """A cached block became entry `logical` of one more block table; free before if `was_free`."""

    block_id: int
    seq_id: str
    logical: int
    was_free: bool
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.allocate_slots"


class BlockCopied(Event, tag="block.copied"):
    """Copy-on-write: about to write to a shared block, a sequence got `dst` instead, off the free queue.

    Entry `logical` of its block table now is `dst`; `src` has one owner fewer and keeps at least one.
    """

    src: int
    dst: int
    seq_id: str
    logical: int
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._copy_on_write"


class BlockMissed(Event, tag="block.missed"):
    """A prefix lookup ended at entry `logical` of the table to be, and why."""

    seq_id: str
    logical: int
    why: MissReason
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.explain_miss"


class BlockReleased(Event, tag="block.released"):
    """A sequence let go of the last entry of its block table: that block's reference count fell by one."""

    block_id: int
    seq_id: str
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.free"


class BlockFreed(Event, tag="block.freed"):
    """A block with no owner joined the free queue: at the `tail` with its hash, at the `head` without."""

    block_id: int
    position: Literal["head", "tail"]
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool.release"


class BlockEvicted(Event, tag="block.evicted"):
    """A cached block is about to be reused: its hash leaves the prefix cache."""

    block_id: int
    hash: str
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool._hand_out"


# ---- tokens, and the log itself ----


class TokenSampled(Event, tag="token.sampled"):
    """A sequence gained one token. `text` is what became visible by it (text may be held back)."""

    seq_id: str
    token_id: int
    text: str
    logprob: float | None = None
    """Only where the request asked for log-probabilities."""
    rule: ClassVar[str] = "minivllm.engine:LLMEngine._append_token"


class TextFlushed(Event, tag="token.text_flushed"):
    """Text that was held back becomes visible because the sequence has ended."""

    seq_id: str
    text: str
    rule: ClassVar[str] = "minivllm.engine:LLMEngine._finish"


class InvariantViolated(Event, tag="invariant.violated"):
    """A check after the step failed (`--check-invariants`): a bug in the engine."""

    name: str
    detail: str
    rule: ClassVar[str] = "minivllm.engine:LLMEngine._check_invariants"


class Gap(Event, tag="log.gap"):
    """`lost` events are missing here, the last of them number `seq`; from here on a fold knows no more."""

    lost: int
    rule: ClassVar[str] = "minivllm.events.log:LogWriter._write_out"


AnyEvent = (
    RequestArrived
    | RequestAdmitted
    | RequestResumed
    | RequestDeferred
    | RequestPreempted
    | RequestForked
    | RequestFinished
    | BeamPruned
    | RequestAborted
    | StepBegin
    | StepScheduled
    | StepEnd
    | BlockAllocated
    | BlockHashed
    | BlockHit
    | BlockCopied
    | BlockMissed
    | BlockReleased
    | BlockFreed
    | BlockEvicted
    | TokenSampled
    | TextFlushed
    | InvariantViolated
    | Gap
)
EVENT_KINDS: tuple[type[Event], ...] = AnyEvent.__args__
