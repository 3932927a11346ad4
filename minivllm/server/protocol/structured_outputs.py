"""The fields that ask for structured output, and the grammar that they ask for.

    response_format       OpenAI's: {"type": "json_schema", "json_schema": {"name", "schema"}}
    structured_outputs    vLLM's: {"regex": "[0-9]+"}, with the fields of `StructuredOutputsParams`
    guided_regex          vLLM's older names, one for each kind

They set the same parameter of the engine, so a request can use only one of them. The engine's
errors call it `structured_outputs`; `RequestedGrammar` restores the client's name.
"""

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints

from minivllm.errors import InvalidRequestError, InvalidSamplingParamsError, MinivllmError
from minivllm.sampling_params import ONE_SPACE, StructuredOutputsParams
from minivllm.server.protocol.strict import Strict

JsonSchema = str | dict[str, Any]
Choices = Annotated[list[str], Field(min_length=1)]


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


class StructuredOutputs(Strict):
    """A form of the output in vLLM's format: exactly one of the first five fields."""

    json_: JsonSchema | None = Field(None, alias="json")
    regex: str | None = None
    choice: Choices | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool | None = None
    whitespace_pattern: str | None = None

    def requested(self) -> RequestedGrammar:
        """Raises `InvalidSamplingParamsError` if none or several of the five are set."""
        given = {name.rstrip("_"): value for name, value in self if value is not None}
        params = StructuredOutputsParams(**given)
        place = f"structured_outputs.{params.kind}"
        return RequestedGrammar("structured_outputs", place, params)


class ResponseSchema(Strict):
    """A JSON schema in OpenAI's format."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """OpenAI's clients must send it; it has no effect here, like `description`."""
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None
    """The output always fits the schema, as in vLLM, even if this is false."""


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
        if self.type == "text":
            return []
        if self.type == "json_object":
            params = StructuredOutputsParams(json_object=True, whitespace_pattern=ONE_SPACE)
            return [RequestedGrammar("response_format", "response_format", params)]
        schema = self.json_schema.schema_
        params = StructuredOutputsParams(json=schema, whitespace_pattern=ONE_SPACE)
        place = "response_format.json_schema.schema"
        return [RequestedGrammar("response_format", place, params)]


class GrammarFields(Strict):
    """vLLM's fields for structured output. At most one of them can be set."""

    structured_outputs: StructuredOutputs | None = None
    guided_json: JsonSchema | None = None
    guided_regex: str | None = None
    guided_choice: Choices | None = None
    guided_grammar: str | None = None

    def requested_grammar(self) -> RequestedGrammar | None:
        """Return the grammar that the output must fit, or None.

        Raises `InvalidRequestError` if two fields ask for one.
        """
        found = self.all_requested()
        if len(found) > 1:
            raise InvalidRequestError(
                f"{found[0].field} and {found[1].field} both set the form of the output: send only"
                " one of them."
            )
        return found[0] if found else None

    def all_requested(self) -> list[RequestedGrammar]:
        found = [
            RequestedGrammar(field, field, StructuredOutputsParams(**{kind: value}))
            for kind in ("json", "regex", "choice", "grammar")
            if (value := getattr(self, field := f"guided_{kind}")) is not None
        ]
        given = self.structured_outputs
        return found if given is None else [given.requested(), *found]
