"""The fields that ask for structured output, and the grammar that they ask for.

    response_format       OpenAI's: {"type": "json_schema", "json_schema": {"name", "schema"}}
    structured_outputs    vLLM's: {"regex": "[0-9]+"}, with the fields of `StructuredOutputsParams`
    guided_regex          vLLM's older names, one for each kind

They set the same parameter of the engine, so a request can use only one of them. The engine's
errors call it `structured_outputs`; `RequestedGrammar` restores the client's name.
"""

from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

from msgspec import Meta, Struct, defstruct
from msgspec.structs import asdict

from minivllm.errors import InvalidRequestError, InvalidSamplingParamsError, MinivllmError
from minivllm.sampling_params import ONE_SPACE, Choices, Schema, StructuredOutputsParams

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Strict(Struct, forbid_unknown_fields=True):
    """The base of all requests: an object with only these fields, and exactly their types.

    Unknown parameters are refused, because an answer that ignores a parameter is wrong. `"5"` is
    not a number, `true` is not 1. Clients send null for "not set", so optional fields accept it.
    """


class RequestedGrammar(NamedTuple):
    field: str
    """The request's field: `response_format`, `structured_outputs`, `guided_json`, ..."""
    place: str
    """Where in the request the grammar is: `response_format.json_schema.schema`."""
    params: StructuredOutputsParams

    def with_clients_names(self, error: MinivllmError) -> InvalidSamplingParamsError:
        """Return an error of the engine with the names of this request's fields."""
        message = str(error).replace(f"structured_outputs: {self.params.kind}", self.place)
        return InvalidSamplingParamsError(message.replace("structured_outputs", self.field))


_FIELDS = get_type_hints(StructuredOutputsParams, include_extras=True)
StructuredOutputs: Any = defstruct(
    "StructuredOutputs", [(name, kind | None, None) for name, kind in _FIELDS.items()],
    bases=(Strict,),
)  # fmt: skip
"""A form of the output in vLLM's format: exactly one of the first five fields."""


class ResponseSchema(Strict):
    """A JSON schema in OpenAI's format. The output always fits it, even if `strict` is false."""

    name: Name
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(Strict):
    """The form of the output in OpenAI's format. Type `text` asks for nothing."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: ResponseSchema | None = None

    def requested(self) -> list[RequestedGrammar]:
        """Raises `InvalidRequestError` if `json_schema` does not fit the type."""
        if (self.json_schema is not None) != (self.type == "json_schema"):
            raise InvalidRequestError(
                "response_format: the type json_schema and the field json_schema belong together:"
                " send both or neither."
            )
        form, place = {"json_object": True}, "response_format"
        if self.json_schema is not None:
            form, place = {"json": self.json_schema.schema}, "response_format.json_schema.schema"
        params = StructuredOutputsParams(**form, whitespace_pattern=ONE_SPACE)
        return [] if self.type == "text" else [RequestedGrammar("response_format", place, params)]


class GrammarFields(Strict):
    """vLLM's fields for structured output. At most one of them can be set."""

    structured_outputs: StructuredOutputs | None = None
    guided_json: Schema | None = None
    guided_regex: str | None = None
    guided_choice: Choices | None = None
    guided_grammar: str | None = None

    def requested_grammar(self) -> RequestedGrammar | None:
        """Return the grammar of the output, if any. Refuse two fields that ask for one."""
        found = self.all_requested()
        if len(found) > 1:
            raise InvalidRequestError(
                f"{found[0].field} and {found[1].field} both set the form of the output: send only"
                " one of them."
            )
        return found[0] if found else None

    def all_requested(self) -> list[RequestedGrammar]:
        found = []
        if self.structured_outputs is not None:
            fields = asdict(self.structured_outputs).items()
            params = StructuredOutputsParams(**{k: v for k, v in fields if v is not None})
            place = f"structured_outputs.{params.kind}"
            found.append(RequestedGrammar("structured_outputs", place, params))
        for kind in ("json", "regex", "choice", "grammar"):
            if (value := getattr(self, field := f"guided_{kind}")) is not None:
                params = StructuredOutputsParams(**{kind: value})
                found.append(RequestedGrammar(field, field, params))
        return found
