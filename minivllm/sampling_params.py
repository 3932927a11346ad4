"""What a request asks of the sampler and of the stop rules, under vLLM's names and ranges.

Knows nothing of tensors, tokenizers or requests in flight: it is plain data, checked once when it
is made. The easy thing to get wrong is silence: a parameter that is out of range, or that would
have no effect, is refused with a sentence and never rounded to something legal.

Source of names and ranges: vLLM `vllm/sampling_params.py`.
"""

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from minivllm.errors import InvalidSamplingParamsError

MAX_LOGPROBS = 20
"""The most alternatives per token that may be asked for (vLLM's `max_logprobs`)."""


MAX_LENGTH_PENALTY = 10.0
"""Beams: so that length ** length_penalty neither overflows nor becomes 0, whatever the length."""


class RequestOutputKind(Enum):
    """How much of a request's output each `step()` hands back."""

    CUMULATIVE = "cumulative"  # everything so far, every time
    DELTA = "delta"  # only what is new since the last time; where the best of several are chosen, all of it at the end
    FINAL_ONLY = "final_only"  # nothing until the request has finished


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling and stopping for one request.

    `temperature == 0` means greedy: the most likely token, the lowest id on an exact tie. The order
    of the processors is vLLM V1's: min-tokens mask, logit bias, repetition, frequency and presence
    penalty, temperature, min-p, then top-k and top-p.

    Raises `InvalidSamplingParamsError`, in one sentence, for the first value that cannot be or that would have no effect.
    """

    n: int = 1
    """How many outputs: independent samples that share the prompt's blocks (or the best beams)."""
    best_of: int | None = None
    """How many sequences to generate for them, `n` by default; the `n` of the highest probability come back."""
    use_beam_search: bool = False
    """The sequences are beams: they fork and die each step, and the `n` best hypotheses come back."""
    beam_width: int | None = None
    """Beams: how many, `best_of` or else `n` by default. Given, it asks for a beam search by itself."""
    length_penalty: float = 1.0
    """Beams: a hypothesis scores its log-probability over (length ** length_penalty). Over 0 favours long ones."""
    early_stopping: bool | Literal["never"] = False
    """Beams: stop at `beam_width` hypotheses (True), when no better one is likely (False) or possible ("never")."""
    max_tokens: int = 16
    """At most this many output tokens, 1 or more."""
    min_tokens: int = 0
    """End-of-sequence and stop tokens are masked, and stop strings ignored, until there are this many."""
    temperature: float = 1.0
    """Logits are divided by it: under 1 likely tokens gain, over 1 they lose. 0 takes the most likely token."""
    top_p: float = 1.0
    """Keep only the most likely tokens whose probabilities together reach this; 1 keeps all."""
    top_k: int = 0
    """Keep only the k most likely tokens; 0 or -1 keeps all (vLLM's two spellings of "off")."""
    min_p: float = 0.0
    """Drop tokens whose probability is under `min_p` times that of the most likely one."""
    repetition_penalty: float = 1.0
    """Over 1 makes tokens of the prompt and of the output less likely (divides positive logits)."""
    presence_penalty: float = 0.0
    """Subtracted once from the logit of each token that is in the output."""
    frequency_penalty: float = 0.0
    """Subtracted from a token's logit once for each time it is in the output."""
    logit_bias: dict[int, float] | None = None
    """Added to the logits of these token ids; from -100 to 100."""
    seed: int | None = None
    """With a seed the text depends on (seed, sequence, position) alone, not on the batch or schedule."""
    stop: list[str] = field(default_factory=list)
    """Strings that end the output; one string is taken as a list of one."""
    stop_token_ids: list[int] = field(default_factory=list)
    """Token ids that end the output, as the model's own end-of-sequence token does."""
    include_stop_str_in_output: bool = False
    """Whether the text ends with the stop string that ended it."""
    ignore_eos: bool = False
    """Whether the model's end-of-sequence token is a token like any other."""
    logprobs: int | None = None
    """None: none. k: the sampled token's and the k most likely tokens' log-probabilities."""
    prompt_logprobs: int | None = None
    """As `logprobs`, for the tokens of the prompt. All of it is then computed: nothing is taken from the prefix cache."""
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
            _require_int("beam_width", self.beam_width, low=2)
        _require_int("n", self.n, low=1)
        if self.best_of is not None:
            _require_int("best_of", self.best_of, low=1)
            if self.best_of < self.n:
                raise InvalidSamplingParamsError(
                    f"best_of is {self.best_of} but n is {self.n}: the best n are chosen from best_of, so raise best_of."
                )
        _require_int("max_tokens", self.max_tokens, low=1)
        _require_int("min_tokens", self.min_tokens, low=0)
        if self.min_tokens > self.max_tokens:
            raise InvalidSamplingParamsError(
                f"min_tokens is {self.min_tokens} but max_tokens is {self.max_tokens}: lower min_tokens or raise max_tokens."
            )
        _require_number("temperature", self.temperature, low=0.0, high=100.0)
        _require_number("top_p", self.top_p, low=0.0, high=1.0, low_open=True)
        _require_number("min_p", self.min_p, low=0.0, high=1.0)
        _require_int("top_k", self.top_k, low=-1)
        if self.top_k == -1:  # one spelling of "off" from here on
            object.__setattr__(self, "top_k", 0)
        _require_number("repetition_penalty", self.repetition_penalty, low=0.01, high=100.0)
        _require_number("presence_penalty", self.presence_penalty, low=-2.0, high=2.0)
        _require_number("frequency_penalty", self.frequency_penalty, low=-2.0, high=2.0)
        if self.seed is not None:
            _require_int("seed", self.seed, low=-(2**63), high=2**63 - 1)
        for name in ("logprobs", "prompt_logprobs"):
            if getattr(self, name) is not None:
                _require_int(name, getattr(self, name), low=0, high=MAX_LOGPROBS)
        if not isinstance(self.stop, list) or any(not isinstance(s, str) or s == "" for s in self.stop):
            raise InvalidSamplingParamsError("stop must be a non-empty string or a list of non-empty strings.")
        if not isinstance(self.stop_token_ids, list):
            raise InvalidSamplingParamsError(f"stop_token_ids must be a list; got {self.stop_token_ids!r}.")
        for token_id in self.stop_token_ids:
            _require_int("stop_token_ids", token_id, low=0)
        if self.logit_bias is not None and not isinstance(self.logit_bias, dict):
            raise InvalidSamplingParamsError(f"logit_bias must be a dict of token ids; got {self.logit_bias!r}.")
        for token_id, bias in (self.logit_bias or {}).items():
            _require_int("logit_bias key", token_id, low=0)
            _require_number("logit_bias value", bias, low=-100.0, high=100.0)
        for name in ("include_stop_str_in_output", "ignore_eos", "skip_special_tokens", "use_beam_search"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidSamplingParamsError(f"{name} must be True or False; got {getattr(self, name)!r}.")
        if not isinstance(self.output_kind, RequestOutputKind):
            raise InvalidSamplingParamsError(f"output_kind must be a RequestOutputKind; got {self.output_kind!r}.")
        self._check_beams()

    def _check_beams(self) -> None:
        _require_number("length_penalty", self.length_penalty, low=-MAX_LENGTH_PENALTY, high=MAX_LENGTH_PENALTY)
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise InvalidSamplingParamsError(
                f'early_stopping must be True, False or "never"; got {self.early_stopping!r}.'
            )
        if not self.use_beam_search:
            for name, default in (("early_stopping", False), ("length_penalty", 1.0)):
                if getattr(self, name) != default:
                    raise InvalidSamplingParamsError(f"{name} is for beams: set beam_width, or leave it out.")
            return
        if self.beam_width is not None:
            if self.best_of is not None:
                raise InvalidSamplingParamsError("best_of and beam_width both say how many beams: leave out best_of.")
            if self.beam_width < self.n:
                raise InvalidSamplingParamsError(
                    f"beam_width is {self.beam_width} but n is {self.n}: the best n come from the beams, so raise beam_width."
                )
        if self.num_sequences < 2:
            raise InvalidSamplingParamsError("use_beam_search needs at least two beams: set beam_width to 2 or more.")
        # A beam search looks for the most probable text: whatever draws or bends probabilities contradicts it. A
        # temperature of 1 leaves them as they are, and 0 is how vLLM's older versions wanted it said.
        plain = SamplingParams(temperature=0.0 if self.temperature == 0.0 else 1.0)
        for name in (
            "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
            "logit_bias", "seed", "stop", "min_tokens", "logprobs",
            "prompt_logprobs",
        ):  # fmt: skip
            if getattr(self, name) != getattr(plain, name):
                raise InvalidSamplingParamsError(
                    f"use_beam_search takes no {name}: leave it at {getattr(plain, name)!r} (got {getattr(self, name)!r})."
                )

    @property
    def num_sequences(self) -> int:
        """Sequences generated for the request: samples, or beams."""
        return self.beam_width or self.best_of or self.n

    @property
    def chooses_best(self) -> bool:
        """Whether the outputs are chosen in the end from sequences that were generated, and not known before."""
        return self.use_beam_search or self.num_sequences > self.n

    @property
    def greedy(self) -> bool:
        """Whether nothing is drawn: each token is the most likely one."""
        return self.temperature == 0.0

    @property
    def takes_best_logit(self) -> bool:
        """Whether each token is the one with the model's best logit: nothing is drawn, masked or penalized."""
        return (
            self.greedy
            and not self.use_beam_search
            and not self.min_tokens
            and not self.logit_bias
            and self.repetition_penalty == 1.0
            and self.frequency_penalty == 0.0
            and self.presence_penalty == 0.0
        )


def _require_int(name: str, value: object, low: int, high: int | None = None) -> None:
    # bool is an int in Python; `max_tokens=True` is a mistake, not a 1.
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        span = f"at least {low}" if high is None else f"from {low} to {high}"
        raise InvalidSamplingParamsError(f"{name} must be a whole number, {span}; got {value!r}.")


def _require_number(name: str, value: object, low: float, high: float, low_open: bool = False) -> None:
    # `math.isfinite` itself fails on an int that is too large for a float; such an int is out of any range below.
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidSamplingParamsError(f"{name} must be a finite number; got {value!r}.")
    if value > high or value < low or (low_open and value == low):
        span = f"over {low:g} and at most {high:g}" if low_open else f"from {low:g} to {high:g}"
        raise InvalidSamplingParamsError(f"{name} must be {span}; got {value!r}.")
