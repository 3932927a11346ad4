"""Events of a step (plan, tokens), and events of options, invariants and the log."""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event

ScheduledKind = Literal["prefill", "decode"]
Phase = Literal["schedule", "execute", "sample"]
"""The phases of a step, in order. Between two steps, the next phase is `schedule`."""
LiveOption = Literal["max_num_batched_tokens", "max_num_seqs"]
"""Options that can be changed while the engine runs."""


class StepBegin(Event, tag="step.begin"):
    """The scheduler starts to plan a step with a token budget of `budget`."""

    budget: int
    """Maximum number of tokens in this step, over all sequences."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.schedule"


class StepScheduled(Event, tag="step.scheduled"):
    """The plan gives a sequence `num_tokens` tokens, from position `num_computed_tokens` on."""

    seq_id: str
    num_tokens: int
    """How many tokens of the sequence go through the model in this step."""
    kind: ScheduledKind
    """`decode`: one token after the prompt. `prefill`: everything else, including tokens that are
    recomputed after a preemption.
    """
    num_computed_tokens: int
    """How many tokens of the sequence had keys and values in the cache before this step."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._advance"


class StepWithdrawn(Event, tag="step.withdrawn"):
    """A sequence loses its share of the step, because it is preempted in the same step.

    Only in recordings of a real vLLM, whose priority policy can preempt what it has just planned.
    """

    seq_id: str
    rule: ClassVar[str] = "minivllm.vllm.tap:Tap.after__preempt_request"


class StepEnd(Event, tag="step.end"):
    """The step is over. The phases' times are in seconds, and zero on the virtual clock."""

    used: int
    """Tokens scheduled in this step."""
    t_schedule: float
    """Time for planning."""
    t_prepare: float
    """Time for preparing the model's inputs."""
    t_model: float
    """Time for running the model, from token ids to logits."""
    t_sample: float
    """Time for sampling, detokenizing and checking for stops."""
    rule: ClassVar[str] = "minivllm.engine.core:EngineCore.sample"


class OptionChanged(Event, tag="engine.option_changed"):
    """An option was changed between two steps. The next step uses the new value."""

    name: LiveOption
    """Name of the option."""
    value: int
    """The new value."""
    old: int
    """The old value."""
    rule: ClassVar[str] = "minivllm.engine.engine:LLMEngine.set_option"


class AttentionMass(Event, tag="attention.mass"):
    """How much attention the last token of a sequence paid to each block in this step.

    Each value is a mean over layers and query heads. The event is emitted before the tokens of the
    step, and only while `record_attention_mass` is on. Samples that fork in this step share the
    event of their parent.
    """

    seq_id: str
    mass: list[float]
    """A value for each block that was read, in the order of the block table; the sum is 1."""
    rule: ClassVar[str] = "minivllm.engine.watchers:Watchers.after"


class TokenAttention(Event, tag="attention.tokens"):
    """How much attention the last token of one sequence paid to each of its tokens in this step.

    Emitted after `attention.mass`, for the sequence that the caller of `record_attention_mass`
    chose, or else for the first sequence of the plan.
    """

    seq_id: str
    weights: list[float]
    """A value for each token, in order, rounded to six decimals. The last one is the share of
    the token itself.
    """
    layer: int | None = None
    """Layer, from 0; None for the mean over all layers."""
    head: int | None = None
    """Query head, from 0; None for the mean over all heads."""
    num_layers: int = 0
    """Number of layers of the model."""
    num_heads: int = 0
    """Number of query heads of each layer."""
    rule: ClassVar[str] = "minivllm.engine.watchers:Watchers.after"


class ExpertsRouted(Event, tag="moe.routed"):
    """How many tokens of this step each expert got, in a model with a mixture of experts.

    Emitted before the tokens of a watched step: `record_attention_mass` is on, or a kernel is
    traced. An expert without a token is not read from memory in this layer.
    """

    counts: list[list[int]]
    """For each layer, from 0, a number for each expert; empty for a layer with a single MLP."""
    rule: ClassVar[str] = "minivllm.engine.watchers:Watchers.after"


class TokensNamed(Event, tag="tokens.named"):
    """The texts of token ids that have not occurred before: once per id, not once per token.

    Emitted before the first event that has one of these ids, so a view can show each token as text.
    """

    pieces: dict[int, str]
    """For each id, the text that the token adds, with its spaces. A special token has its name, a
    byte of an incomplete character is `<0xE2>`, and an id without a text is empty.
    """
    rule: ClassVar[str] = "minivllm.engine.watchers:TokenNames.name"


class TokenSampled(Event, tag="token.sampled"):
    """A sequence gained one token."""

    seq_id: str
    token_id: int
    text: str
    """The text that became visible. Partial characters and possible stop strings are held back."""
    logprob: float | None = None
    """Log-probability (natural logarithm); None unless the request asked for log-probabilities.

    Of a beam: the sum for its tokens so far.
    """
    of_step: int | None = None
    """The step that computed it, if that is an earlier one. With vLLM's asynchronous scheduling, the
    next step is planned before the tokens are known.
    """
    rule: ClassVar[str] = "minivllm.engine.core:RequestUpdater._append"


class TextFlushed(Event, tag="token.text_flushed"):
    """A sequence ended, and its held-back text became visible."""

    seq_id: str
    text: str
    """All text that was held back."""
    rule: ClassVar[str] = "minivllm.engine.core:RequestUpdater._finish"


class InvariantViolated(Event, tag="invariant.violated"):
    """A check after a step failed (`--check-invariants`): a bug in the engine."""

    name: str
    """Name of the invariant."""
    detail: str
    """The values that violate the invariant."""
    rule: ClassVar[str] = "minivllm.engine.core:EngineCore._check_invariants"


class Gap(Event, tag="log.gap"):
    """`lost` events are missing here; the last of them had number `seq`. A fold cannot go on."""

    lost: int
    """Number of missing events."""
    rule: ClassVar[str] = "minivllm.events.recording.log:LogWriter._write_out"
