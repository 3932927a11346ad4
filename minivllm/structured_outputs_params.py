"""`StructuredOutputsParams`: a form that the output of a request must have.

Part of `SamplingParams`. `minivllm.structured_output` turns it into a grammar.

Source: vLLM `vllm/sampling_params.py`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from minivllm.checks import check_fields
from minivllm.errors import InvalidSamplingParamsError

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
        try:
            check_fields(self, InvalidSamplingParamsError)
        except InvalidSamplingParamsError as error:
            raise InvalidSamplingParamsError(f"structured_outputs: {error}") from None
        kinds = get_args(StructuredOutputsKind)
        given = [kind for kind in kinds if getattr(self, kind) not in (None, False)]
        if len(given) != 1:
            raise InvalidSamplingParamsError(
                f"structured_outputs needs exactly one of {', '.join(kinds)}; got"
                f" {' and '.join(given) or 'none'}."
            )
        spaces = self.disable_any_whitespace or self.whitespace_pattern is not None
        if spaces and not given[0].startswith("json"):
            raise InvalidSamplingParamsError(
                f"structured_outputs: white space is set for JSON only; leave"
                f" disable_any_whitespace and whitespace_pattern out with {given[0]}."
            )

    @property
    def kind(self) -> StructuredOutputsKind:
        """The name of the field that is set."""
        return next(
            kind
            for kind in get_args(StructuredOutputsKind)
            if getattr(self, kind) not in (None, False)
        )

    def check_beside(self, params: object) -> None:
        """Raise `InvalidSamplingParamsError` if other `SamplingParams` contradict a grammar."""
        if params.use_beam_search:
            raise InvalidSamplingParamsError(
                "use_beam_search does not support structured_outputs: leave one of them out."
            )
        for name in ("min_tokens", "ignore_eos"):
            if getattr(params, name):
                raise InvalidSamplingParamsError(
                    f"{name} contradicts structured_outputs, whose grammar says where the output"
                    f" may end: leave {name} out."
                )
