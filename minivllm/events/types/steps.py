"""Events of a step, of what it is planned with, of the tokens that it gives, and of the log
itself.
"""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event

ScheduledKind = Literal["prefill", "decode"]
Phase = Literal["schedule", "execute", "sample"]
"""The phases of a step, in their order. Whose next phase is `schedule` stands between two steps."""
LiveOption = Literal["max_num_batched_tokens", "max_num_seqs"]
"""Options that can be changed while the engine runs."""


class StepBegin(Event, tag="step.begin"):
    """The scheduler starts to plan a step with `budget` tokens to give."""

    budget: int
    """Most tokens of this step, over all sequences."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.schedule"


class StepScheduled(Event, tag="step.scheduled"):
    """The plan gives `num_tokens` tokens to a sequence, starting at position
    `num_computed_tokens`.
    """

    seq_id: str
    num_tokens: int
    """How many of its tokens go through the model in this step."""
    kind: ScheduledKind
    """`decode`: one token, after the prompt. All else is `prefill`, also what a preemption lost and
    is computed again.
    """
    num_computed_tokens: int
    """Tokens of it whose keys and values are in the cache before this step."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._commit"


class StepEnd(Event, tag="step.end"):
    """The step is over; where its time went, in seconds (all zero on the virtual clock)."""

    used: int
    """Tokens of the budget that were given out."""
    t_schedule: float
    """Planning."""
    t_prepare: float
    """Making the model's inputs of the plan."""
    t_model: float
    """The model, from token ids to logits."""
    t_sample: float
    """Choosing tokens, and what follows from them: texts, stops, ends."""
    rule: ClassVar[str] = "minivllm.engine.stepper:Stepper._sample"


class OptionChanged(Event, tag="engine.option_changed"):
    """A person changed an option between two steps; the next one is planned with it."""

    name: LiveOption
    """Which option."""
    value: int
    """What it is from now on."""
    old: int
    """What it was."""
    rule: ClassVar[str] = "minivllm.engine.live_options:change_option"


class AttentionMass(Event, tag="attention.mass"):
    """How much of the attention of a sequence's last token of this step fell on each block, if
    somebody asked.

    The mean over layers and query heads. Told before the step's tokens are; samples that part here
    have one, their parent's.
    """

    seq_id: str
    mass: list[float]
    """In the order of the block table as far as the model has read it; sums to 1."""
    rule: ClassVar[str] = "minivllm.engine.stepper:Stepper._execute"


class TokenSampled(Event, tag="token.sampled"):
    """A sequence gained one token. `text` is what became visible by it (text may be held back)."""

    seq_id: str
    token_id: int
    text: str
    """Held back are halves of characters, and what may become a stop string."""
    logprob: float | None = None
    """Only where the request asked for log-probabilities."""
    rule: ClassVar[str] = "minivllm.engine.stepper:Stepper._append_token"


class TextFlushed(Event, tag="token.text_flushed"):
    """Text that was held back becomes visible because the sequence has ended."""

    seq_id: str
    text: str
    """All that was held back."""
    rule: ClassVar[str] = "minivllm.engine.stepper:Stepper._finish"


class InvariantViolated(Event, tag="invariant.violated"):
    """A check after the step failed (`--check-invariants`): a bug in the engine."""

    name: str
    """Of the invariant."""
    detail: str
    """What was found."""
    rule: ClassVar[str] = "minivllm.engine.stepper:Stepper._check_invariants"


class Gap(Event, tag="log.gap"):
    """`lost` events are missing here, the last of them number `seq`; from here on a fold knows no
    more.
    """

    lost: int
    """How many."""
    rule: ClassVar[str] = "minivllm.events.recording.log:LogWriter._write_out"
