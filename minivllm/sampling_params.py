"""`SamplingParams`: how one request is sampled and when it stops, with vLLM's names and ranges.

The parameters are checked when they are created. A value that is out of range or would have no
effect raises an error, and is never silently replaced.

Source of names and ranges: vLLM `vllm/sampling_params.py`.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from minivllm.checks import Positive, check_fields
from minivllm.errors import InvalidSamplingParamsError

MAX_LOGPROBS = 20
"""A request can ask for at most this many alternatives per token (vLLM's `max_logprobs`)."""

MAX_LENGTH_PENALTY = 10
"""Up to this limit, length ** length_penalty neither overflows nor becomes 0."""

Count = Annotated[int, Meta(ge=0)]
NumLogprobs = Annotated[int, Meta(ge=0, le=MAX_LOGPROBS)]
EarlyStopping = Annotated[bool | Literal["never"], Meta(description='True, False or "never"')]
StopStrings = Annotated[
    list[Annotated[str, Meta(min_length=1)]],
    Meta(description="a non-empty string or a list of non-empty strings"),
]


StructuredOutputsKind = Literal["json", "regex", "choice", "grammar", "json_object"]
Schema = Annotated[
    str | dict[str, Any], Meta(description="a JSON schema, as an object or as a string")
]
Choices = Annotated[
    list[str], Meta(min_length=1, description="a list of one or more strings to choose from")
]

ONE_SPACE = " "
"""A `whitespace_pattern`: at most one space between two parts of JSON, as most texts have it. More
would let a small model fill `max_tokens` with white space; without any, it answers worse.
"""


@dataclass(frozen=True, slots=True)
class StructuredOutputsParams:
    """A form that the whole output must have. Set exactly one of the first five fields.

    Raises `InvalidSamplingParamsError` if none or several are set. The engine checks the schema,
    the regex or the grammar when it gets the request.
    """

    json: Schema | None = None
    """Output JSON that fits this JSON schema."""
    regex: str | None = None
    """Output a text that fits this whole regular expression, in the syntax of Rust's `regex`."""
    choice: Choices | None = None
    """Output one of these texts."""
    grammar: str | None = None
    """Output a text of this grammar, in Lark's syntax (the first rule is `start`) or in llama.cpp's
    GBNF (`root`).
    """
    json_object: bool | None = None
    """True: output any JSON object."""
    disable_any_whitespace: bool = False
    """JSON: no white space between the parts."""
    whitespace_pattern: str | None = None
    """JSON: a regular expression for the white space between two parts. None: up to 20 characters.
    """

    def __post_init__(self) -> None:
        check_fields(self, InvalidSamplingParamsError, "structured_outputs: ")
        given = self._given()
        if len(given) != 1:
            kinds = ", ".join(get_args(StructuredOutputsKind))
            raise InvalidSamplingParamsError(
                f"structured_outputs needs exactly one of {kinds}; got"
                f" {' and '.join(given) or 'none'}."
            )
        spaces = self.disable_any_whitespace or self.whitespace_pattern is not None
        if spaces and not given[0].startswith("json"):
            raise InvalidSamplingParamsError(
                f"structured_outputs: white space is set for JSON only; leave"
                f" disable_any_whitespace and whitespace_pattern out with {given[0]}."
            )

    def _given(self) -> list[StructuredOutputsKind]:
        kinds = get_args(StructuredOutputsKind)
        return [kind for kind in kinds if getattr(self, kind) not in (None, False)]

    @property
    def kind(self) -> StructuredOutputsKind:
        """The name of the field that is set."""
        return self._given()[0]


class RequestOutputKind(Enum):
    """How much of a request's output each `step()` returns."""

    CUMULATIVE = "cumulative"  # in each step, all text and tokens from the start
    # Only what is new since the last output. If the best of several sequences are returned, all of
    # their text and tokens come at the end.
    DELTA = "delta"
    FINAL_ONLY = "final_only"  # nothing until the request has finished


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling and stopping of one request.

    `temperature == 0` means greedy sampling: the most likely token, and on an exact tie the lowest
    id. The processors run in vLLM V1's order: min-tokens mask, logit bias, repetition, frequency
    and presence penalty, temperature, min-p, then top-k and top-p.

    Raises `InvalidSamplingParamsError` for the first value that is invalid or would have no effect.
    """

    n: Positive = 1
    """Number of outputs: independent samples that share the prompt's blocks, or the best beams."""
    best_of: Positive | None = None
    """Number of sequences to generate; the `n` most probable are returned. None: `n`."""
    use_beam_search: bool = False
    """Search the most probable texts with beams, and return the `n` best texts."""
    beam_width: Annotated[int, Meta(ge=2)] | None = None
    """Number of beams; if set, beam search is on. None: use `best_of`, or `n` without `best_of`."""
    length_penalty: Annotated[float, Meta(ge=-MAX_LENGTH_PENALTY, le=MAX_LENGTH_PENALTY)] = 1.0
    """Beams: a text is ranked by log-probability / length ** length_penalty. Values above 0 favour
    long texts.
    """
    early_stopping: EarlyStopping = False
    """Beams: when to stop after `beam_width` texts have been found. True: at once. False: when a
    better text is unlikely. "never": when no better text is possible.
    """
    max_tokens: Positive = 16
    """Maximum number of output tokens of each sequence."""
    min_tokens: Count = 0
    """Until there are this many output tokens, end-of-sequence and stop tokens are masked, and stop
    strings are ignored.
    """
    temperature: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """Divides the logits. Below 1, likely tokens become more likely; above 1, less likely. 0:
    greedy sampling, which always takes the most likely token.
    """
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Keep only the most likely tokens whose probabilities add up to `top_p`. 1: keep all."""
    top_k: Annotated[int, Meta(ge=-1)] = 0
    """Keep only the `top_k` most likely tokens. 0 or -1: keep all (vLLM accepts both values)."""
    min_p: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Drop tokens that are less likely than `min_p` times the most likely token. 0: keep all."""
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=100)] = 1.0
    """Above 1, tokens of the prompt and the output become less likely: positive logits are divided
    by the penalty, negative logits multiplied.
    """
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    """Subtracted once from the logit of each token that the output contains."""
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    """Subtracted from a token's logit as many times as the output contains the token."""
    logit_bias: dict[Count, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    """Maps token ids to numbers from -100 to 100, which are added to the tokens' logits."""
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    """With a seed, a sample depends only on the seed, its position and its sequence's number within
    the request, not on the batch. None: use the engine's `seed` and the request id.
    """
    stop: StopStrings = field(default_factory=list)
    """Strings that end the output. A single string counts as a list with one string."""
    stop_token_ids: list[Count] = field(default_factory=list)
    """Token ids that end the output, like the model's end-of-sequence token."""
    include_stop_str_in_output: bool = False
    """Keep the stop string at the end of the text."""
    ignore_eos: bool = False
    """Continue after the model's end-of-sequence token."""
    logprobs: NumLogprobs | None = None
    """Return the log-probabilities of the sampled token and of the `logprobs` most likely tokens.
    None: return none.
    """
    prompt_logprobs: NumLogprobs | None = None
    """Return the same for each token of the prompt. The whole prompt is then computed, without
    prefix cache hits.
    """
    skip_special_tokens: bool = True
    """Leave special tokens (such as end-of-sequence) out of the text, but not of `token_ids`."""
    structured_outputs: StructuredOutputsParams | None = None
    """Mask every token that would leave this form, and end when the form is complete."""
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    """What each `step()` returns: the whole output, the new part, or nothing until the end."""

    def __post_init__(self) -> None:
        # Most callers pass a bare string. `object.__setattr__`, because the class is frozen.
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", [self.stop])
        if self.beam_width is not None:
            object.__setattr__(self, "use_beam_search", True)
        check_fields(self, InvalidSamplingParamsError)
        # msgspec would also accept the value of a member, such as "delta".
        if not isinstance(self.output_kind, RequestOutputKind):
            raise InvalidSamplingParamsError(
                f"output_kind must be a RequestOutputKind; got {self.output_kind!r}."
            )
        if self.top_k == -1:  # from here on, only 0 means "off"
            object.__setattr__(self, "top_k", 0)
        for name in ("best_of", "beam_width"):
            if (most := getattr(self, name)) is not None and most < self.n:
                raise InvalidSamplingParamsError(
                    f"{name} is {most} but n is {self.n}: the best n are chosen from {name} texts,"
                    f" so raise {name}."
                )
        if self.min_tokens > self.max_tokens:
            raise InvalidSamplingParamsError(
                f"min_tokens is {self.min_tokens} but max_tokens is {self.max_tokens}: lower"
                " min_tokens or raise max_tokens."
            )
        self._check_beams()
        if self.structured_outputs is not None:
            for name in ("min_tokens", "ignore_eos"):
                if getattr(self, name):
                    raise InvalidSamplingParamsError(
                        f"{name} contradicts structured_outputs, whose grammar says where the"
                        f" output may end: leave {name} out."
                    )

    def _check_beams(self) -> None:
        if not self.use_beam_search:
            for name, default in (("early_stopping", False), ("length_penalty", 1.0)):
                if getattr(self, name) != default:
                    raise InvalidSamplingParamsError(
                        f"{name} applies to beam search only: set beam_width too, or leave {name}"
                        " out."
                    )
            return
        if None not in (self.beam_width, self.best_of):
            raise InvalidSamplingParamsError(
                "best_of and beam_width both set the number of beams: leave best_of out."
            )
        if self.num_sequences < 2:
            raise InvalidSamplingParamsError(
                "use_beam_search needs at least two beams: set beam_width to 2 or more."
            )
        # A beam search looks for the most probable text, so nothing may change the probabilities.
        # Temperature 1 changes nothing, and older versions of vLLM required 0.
        plain = SamplingParams(temperature=0.0 if self.temperature == 0.0 else 1.0)
        for name in (
            "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
            "frequency_penalty", "logit_bias", "seed", "stop", "min_tokens", "logprobs",
            "prompt_logprobs", "structured_outputs",
        ):  # fmt: skip
            if getattr(self, name) != getattr(plain, name):
                raise InvalidSamplingParamsError(
                    f"use_beam_search does not support {name}: leave it at"
                    f" {getattr(plain, name)!r} (got {getattr(self, name)!r})."
                )

    @property
    def num_sequences(self) -> int:
        """Number of sequences to generate: samples or beams."""
        return self.beam_width or self.best_of or self.n

    @property
    def chooses_best(self) -> bool:
        """Whether the `n` outputs are chosen at the end from beams or from more samples."""
        return self.use_beam_search or self.num_sequences > self.n

    @property
    def greedy(self) -> bool:
        """Whether each token is the most likely one, without random sampling."""
        return self.temperature == 0.0

    @property
    def takes_best_logit(self) -> bool:
        """Whether each token is the argmax of the model's logits, without masks or penalties."""
        masks = self.use_beam_search or self.min_tokens or self.logit_bias
        penalties = self.frequency_penalty, self.presence_penalty, self.repetition_penalty - 1.0
        return self.greedy and not (masks or self.structured_outputs or any(penalties))
