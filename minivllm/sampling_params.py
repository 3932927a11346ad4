"""What a request asks of the sampler and of the stop rules, under vLLM's names and ranges.

Knows nothing of tensors, tokenizers or requests in flight: it is plain data, checked once when it
is made. The easy thing to get wrong is silence: a parameter that is out of range, or that would
have no effect, is refused with a sentence and never rounded to something legal.

Source of names and ranges: vLLM `vllm/sampling_params.py`.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Literal

from msgspec import Meta

from minivllm.checks import Positive, check_fields
from minivllm.errors import InvalidSamplingParamsError

MAX_LOGPROBS = 20
"""The most alternatives per token that may be asked for (vLLM's `max_logprobs`)."""

MAX_LENGTH_PENALTY = 10
"""Beams: so that length ** length_penalty neither overflows nor becomes 0, whatever the length."""

Count = Annotated[int, Meta(ge=0)]
NumLogprobs = Annotated[int, Meta(ge=0, le=MAX_LOGPROBS)]
EarlyStopping = Annotated[bool | Literal["never"], Meta(description='True, False or "never"')]
StopStrings = Annotated[
    list[Annotated[str, Meta(min_length=1)]],
    Meta(description="a non-empty string or a list of non-empty strings"),
]


class RequestOutputKind(Enum):
    """How much of a request's output each `step()` hands back."""

    CUMULATIVE = "cumulative"  # everything so far, every time
    # only what is new since the last time; where the best of several are chosen, all of it at
    # the end
    DELTA = "delta"
    FINAL_ONLY = "final_only"  # nothing until the request has finished


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling and stopping for one request.

    `temperature == 0` means greedy: the most likely token, the lowest id on an exact tie. The order
    of the processors is vLLM V1's: min-tokens mask, logit bias, repetition, frequency and presence
    penalty, temperature, min-p, then top-k and top-p.

    Raises `InvalidSamplingParamsError`, in one sentence, for the first value that cannot be or that
    would have no effect.
    """

    n: Positive = 1
    """How many outputs: independent samples that share the prompt's blocks (or the best beams)."""
    best_of: Positive | None = None
    """How many sequences to generate for them, `n` by default; the `n` of the highest probability
    come back.
    """
    use_beam_search: bool = False
    """The sequences are beams: they fork and die each step, and the `n` best hypotheses come
    back.
    """
    beam_width: Annotated[int, Meta(ge=2)] | None = None
    """Beams: how many, `best_of` or else `n` by default. Given, it asks for a beam search by
    itself.
    """
    length_penalty: Annotated[float, Meta(ge=-MAX_LENGTH_PENALTY, le=MAX_LENGTH_PENALTY)] = 1.0
    """Beams: a hypothesis scores its log-probability over (length ** length_penalty). Over 0
    favours long ones.
    """
    early_stopping: EarlyStopping = False
    """Beams: stop at `beam_width` hypotheses (True), when no better one is likely (False) or
    possible ("never").
    """
    max_tokens: Positive = 16
    """At most this many output tokens, 1 or more."""
    min_tokens: Count = 0
    """End-of-sequence and stop tokens are masked, and stop strings ignored, until there are this
    many.
    """
    temperature: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """Logits are divided by it: under 1 likely tokens gain, over 1 they lose. 0 takes the most
    likely token.
    """
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Keep only the most likely tokens whose probabilities together reach this; 1 keeps all."""
    top_k: Annotated[int, Meta(ge=-1)] = 0
    """Keep only the k most likely tokens; 0 or -1 keeps all (vLLM's two spellings of "off")."""
    min_p: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Drop tokens whose probability is under `min_p` times that of the most likely one."""
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=100)] = 1.0
    """Over 1 makes tokens of the prompt and of the output less likely (divides positive logits)."""
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    """Subtracted once from the logit of each token that is in the output."""
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    """Subtracted from a token's logit once for each time it is in the output."""
    logit_bias: dict[Count, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    """Added to the logits of these token ids; from -100 to 100."""
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    """With a seed the text depends on (seed, sequence, position) alone, not on the batch or
    schedule.
    """
    stop: StopStrings = field(default_factory=list)
    """Strings that end the output; one string is taken as a list of one."""
    stop_token_ids: list[Count] = field(default_factory=list)
    """Token ids that end the output, as the model's own end-of-sequence token does."""
    include_stop_str_in_output: bool = False
    """Whether the text ends with the stop string that ended it."""
    ignore_eos: bool = False
    """Whether the model's end-of-sequence token is a token like any other."""
    logprobs: NumLogprobs | None = None
    """None: none. k: the sampled token's and the k most likely tokens' log-probabilities."""
    prompt_logprobs: NumLogprobs | None = None
    """As `logprobs`, for the tokens of the prompt. All of it is then computed: nothing is taken
    from the prefix cache.
    """
    skip_special_tokens: bool = True
    """Whether the text leaves out tokens like the end of sequence; `token_ids` has them all."""
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    """How much each `step()` hands back: all so far, what is new, or nothing before the end."""

    def __post_init__(self) -> None:
        # A bare string is what most people write; `object.__setattr__` because we are frozen.
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", [self.stop])
        if self.beam_width is not None:
            object.__setattr__(self, "use_beam_search", True)
        check_fields(self, InvalidSamplingParamsError)
        # not its name, which msgspec would take
        if not isinstance(self.output_kind, RequestOutputKind):
            raise InvalidSamplingParamsError(
                f"output_kind must be a RequestOutputKind; got {self.output_kind!r}."
            )
        if self.top_k == -1:  # one spelling of "off" from here on
            object.__setattr__(self, "top_k", 0)
        if self.best_of is not None and self.best_of < self.n:
            raise InvalidSamplingParamsError(
                f"best_of is {self.best_of} but n is {self.n}: the best n are chosen from best_of,"
                " so raise best_of."
            )
        if self.min_tokens > self.max_tokens:
            raise InvalidSamplingParamsError(
                f"min_tokens is {self.min_tokens} but max_tokens is {self.max_tokens}: lower"
                " min_tokens or raise max_tokens."
            )
        self._check_beams()

    def _check_beams(self) -> None:
        if not self.use_beam_search:
            for name, default in (("early_stopping", False), ("length_penalty", 1.0)):
                if getattr(self, name) != default:
                    raise InvalidSamplingParamsError(
                        f"{name} is for beams: set beam_width, or leave it out."
                    )
            return
        if self.beam_width is not None:
            if self.best_of is not None:
                raise InvalidSamplingParamsError(
                    "best_of and beam_width both say how many beams: leave out best_of."
                )
            if self.beam_width < self.n:
                raise InvalidSamplingParamsError(
                    f"beam_width is {self.beam_width} but n is {self.n}: the best n come from the"
                    " beams, so raise beam_width."
                )
        if self.num_sequences < 2:
            raise InvalidSamplingParamsError(
                "use_beam_search needs at least two beams: set beam_width to 2 or more."
            )
        # A beam search looks for the most probable text: whatever draws or bends probabilities
        # contradicts it. A temperature of 1 leaves them as they are, and 0 is how vLLM's older
        # versions wanted it said.
        plain = SamplingParams(temperature=0.0 if self.temperature == 0.0 else 1.0)
        for name in (
            "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
            "frequency_penalty", "logit_bias", "seed", "stop", "min_tokens", "logprobs",
            "prompt_logprobs",
        ):  # fmt: skip
            if getattr(self, name) != getattr(plain, name):
                raise InvalidSamplingParamsError(
                    f"use_beam_search takes no {name}: leave it at {getattr(plain, name)!r} (got"
                    f" {getattr(self, name)!r})."
                )

    @property
    def num_sequences(self) -> int:
        """Sequences generated for the request: samples, or beams."""
        return self.beam_width or self.best_of or self.n

    @property
    def chooses_best(self) -> bool:
        """Whether the outputs are chosen in the end from sequences that were generated, and not
        known before.
        """
        return self.use_beam_search or self.num_sequences > self.n

    @property
    def greedy(self) -> bool:
        """Whether nothing is drawn: each token is the most likely one."""
        return self.temperature == 0.0

    @property
    def takes_best_logit(self) -> bool:
        """Whether each token is the one with the model's best logit: nothing is drawn, masked or
        penalized.
        """
        return (
            self.greedy
            and not self.use_beam_search
            and not self.min_tokens
            and not self.logit_bias
            and self.repetition_penalty == 1.0
            and self.frequency_penalty == 0.0
            and self.presence_penalty == 0.0
        )
