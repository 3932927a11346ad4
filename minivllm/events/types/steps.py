"""Events of a step, of the tokens that it gives, and of the log itself."""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event

ScheduledKind = Literal["prefill", "decode"]


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


class AttentionMass(Event, tag="attention.mass"):
    """How much of the attention of a sequence's last token of this step fell on each block, if somebody asked.

    The mean over layers and query heads. Told before the step's tokens are; samples that part here have one, their parent's.
    """

    seq_id: str
    mass: list[float]
    """In the order of the block table as far as the model has read it; sums to 1."""
    rule: ClassVar[str] = "minivllm.engine:LLMEngine._step"


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
