"""The kinds of events: one small struct for each kind of decision.

Folding all events of a run in order gives the exact state of the engine (`fold.py`; tests compare
the result with `engine.inspect()` after every step). So an event says what *changed* and why, and
has no data that can be derived. `seq` is also the order of the changes.

In JSON, an event is one object: the tag `ev`, the envelope (`seq`, `step`, `t`), and its own
fields. All kinds are flat, except `kernel.traced`, `token.explained`, `tokens.named` and the
sampling parameters of `request.arrived`. `rule` names the function that emits the kind, so that a
dashboard can show the function's source. `rule` is not part of the JSON.
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
from minivllm.events.types.drafts import DraftProposed, DraftSource, DraftVerified
from minivllm.events.types.envelope import SCHEMA_NAME, SCHEMA_VERSION, Event, LogHeader
from minivllm.events.types.explanations import (
    BeamCandidate,
    SamplingCut,
    TokenCandidate,
    TokenExplained,
)
from minivllm.events.types.grammars import GrammarState
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
    RequestSampling,
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
    TokenAttention,
    TokenSampled,
    TokensNamed,
)

__all__ = [
    "EVENT_KINDS",
    "SCHEMA_NAME",
    "SCHEMA_VERSION",
    "AnyEvent",
    "AttentionMass",
    "BeamCandidate",
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
    "DraftProposed",
    "DraftSource",
    "DraftVerified",
    "Event",
    "Gap",
    "GrammarState",
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
    "RequestSampling",
    "SamplingCut",
    "ScheduledKind",
    "StepBegin",
    "StepEnd",
    "StepScheduled",
    "TextFlushed",
    "TokenAttention",
    "TokenCandidate",
    "TokenExplained",
    "TokenSampled",
    "TokensNamed",
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
    | DraftProposed
    | DraftVerified
    | OptionChanged
    | AttentionMass
    | TokenAttention
    | KernelTraced
    | GrammarState
    | TokenExplained
    | TokensNamed
    | TokenSampled
    | TextFlushed
    | InvariantViolated
    | Gap
)
EVENT_KINDS: tuple[type[Event], ...] = AnyEvent.__args__
