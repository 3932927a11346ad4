"""The vocabulary of the event stream: one small struct for each kind of decision.

Whoever folds all events of a run, in order, knows exactly what the engine knows: block tables,
reference counts, the free queue and its order, hashes, queues, counters (`fold.py` does it, and the
tests compare it with `engine.inspect()` after every step). An event therefore says what *changed*,
with its reason, and never carries a copy of state that the reader can work out.

Every event is one JSON object: the tag `ev`, the envelope (`seq`, `step`, `t`), its own fields. All
but `kernel.traced` are flat. `rule` names the function that emits the kind, so that a dashboard can
show its source; it is a class attribute and does not travel. The easy thing to get wrong is order:
an event is emitted at the moment its change is made, so `seq` is also the order in which the
changes happened.
"""

from minivllm.events.types.blocks import (
    BlockAllocated,
    BlockCopied,
    BlockEvicted,
    BlockFreed,
    BlockHashed,
    BlockHit,
    BlockMissed,
    BlockReleased,
    MissReason,
)
from minivllm.events.types.envelope import SCHEMA_NAME, SCHEMA_VERSION, Event, LogHeader
from minivllm.events.types.kernels import (
    KernelTraced,
    RecordedDecode,
    TracedProgram,
    TracedRead,
    TracedTile,
)
from minivllm.events.types.requests import (
    BeamPruned,
    BeamsFound,
    DeferReason,
    RequestAborted,
    RequestAdmitted,
    RequestArrived,
    RequestDeferred,
    RequestFinished,
    RequestForked,
    RequestPreempted,
    RequestResumed,
)
from minivllm.events.types.steps import (
    AttentionMass,
    Gap,
    InvariantViolated,
    LiveOption,
    OptionChanged,
    Phase,
    ScheduledKind,
    StepBegin,
    StepEnd,
    StepScheduled,
    TextFlushed,
    TokenSampled,
)

__all__ = [
    "EVENT_KINDS",
    "SCHEMA_NAME",
    "SCHEMA_VERSION",
    "AnyEvent",
    "AttentionMass",
    "BeamPruned",
    "BeamsFound",
    "BlockAllocated",
    "BlockCopied",
    "BlockEvicted",
    "BlockFreed",
    "BlockHashed",
    "BlockHit",
    "BlockMissed",
    "BlockReleased",
    "DeferReason",
    "Event",
    "Gap",
    "InvariantViolated",
    "KernelTraced",
    "LiveOption",
    "LogHeader",
    "MissReason",
    "OptionChanged",
    "Phase",
    "RecordedDecode",
    "RequestAborted",
    "RequestAdmitted",
    "RequestArrived",
    "RequestDeferred",
    "RequestFinished",
    "RequestForked",
    "RequestPreempted",
    "RequestResumed",
    "ScheduledKind",
    "StepBegin",
    "StepEnd",
    "StepScheduled",
    "TextFlushed",
    "TokenSampled",
    "TracedProgram",
    "TracedRead",
    "TracedTile",
]

AnyEvent = (
    RequestArrived
    | RequestAdmitted
    | RequestResumed
    | RequestDeferred
    | RequestPreempted
    | RequestForked
    | RequestFinished
    | BeamPruned
    | BeamsFound
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
    | OptionChanged
    | AttentionMass
    | KernelTraced
    | TokenSampled
    | TextFlushed
    | InvariantViolated
    | Gap
)
EVENT_KINDS: tuple[type[Event], ...] = AnyEvent.__args__
