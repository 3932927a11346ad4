"""Tools in a chat request, and tool calls in messages, as OpenAI defined them.

With `tool_choice` "required" or a function's name, a grammar makes the model write a call:

    required     [{"name":"weather","parameters":{"city":"Oslo"}},{"name":...}]
    a function   {"city":"Oslo"}

Each form is vLLM's, but without white space, so that a weak model cannot fill `max_tokens` with it.
The form for "required" is one JSON schema with each function's schema in its `$defs`. Each of these
has an `$id`, so a reference such as `#/$defs/City` stays within its function.
"""

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from minivllm.errors import InvalidRequestError
from minivllm.sampling_params import StructuredOutputsParams
from minivllm.server.protocol.structured_outputs import Name, RequestedGrammar, Strict
from minivllm.structured_output import MAX_LENGTH

MAX_CALLS = 16
"""Most calls in one answer with "required"; a weak model would go on until `max_tokens`."""

CallId = Annotated[str, Meta(min_length=1, max_length=256)]

_COMBINED = {"$ref", "allOf", "anyOf", "oneOf", "patternProperties"}
"""Keywords by which a schema gets more properties than its own."""


class FunctionDefinition(Strict, omit_defaults=True):
    """A function that the model may call."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """A JSON schema of an object; None: the function has no parameters."""
    strict: bool | None = None
    """Without effect: forced calls always fit the schema, and with "auto" nothing forces them."""

    def schema_of_arguments(self) -> dict[str, Any]:
        """Return the schema for the grammar, which allows only declared arguments."""
        schema = self.parameters or {"type": "object", "properties": {}}
        if "properties" in schema and not schema.keys() & _COMBINED:
            return {"additionalProperties": False} | schema
        return schema


class FunctionTool(Strict):
    """A tool: a function of the client."""

    type: Literal["function"]
    function: FunctionDefinition

    def plain(self) -> dict[str, Any]:
        """Convert to the dictionary that a chat template takes."""
        tool = msgspec.to_builtins(self)
        tool["function"].pop("strict", None)
        return tool


class NamedFunction(Strict):
    """The name of one of the request's functions."""

    name: Name


class NamedToolChoice(Strict):
    """The function that the model must call."""

    type: Literal["function"]
    function: NamedFunction


ToolChoice = NamedToolChoice | Literal["none", "auto", "required"]


class SentFunction(Strict):
    """A called function in a message that a client sends back."""

    name: Name
    arguments: str
    """A JSON object as text."""

    def __post_init__(self) -> None:
        try:
            msgspec.json.decode(self.arguments, type=dict)
        except (msgspec.MsgspecError, RecursionError):
            raise ValueError("arguments must be a JSON object, written as text.") from None


class SentToolCall(Strict):
    """A call in a message that a client sends back."""

    id: CallId
    function: SentFunction
    type: Literal["function"] = "function"

    def plain(self) -> dict[str, Any]:
        """Convert for a chat template, which expects the arguments as an object."""
        function = {"name": self.function.name, "arguments": json.loads(self.function.arguments)}
        return {"id": self.id, "type": self.type, "function": function}


def calls_as_text(calls: list[SentToolCall]) -> str:
    """Write calls in the form that "required" forces."""
    values = [
        {"name": call.function.name, "parameters": json.loads(call.function.arguments)}
        for call in calls
    ]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def check_tools(tools: list[FunctionTool], choice: ToolChoice | None) -> None:
    """Raise `InvalidRequestError` for equal names, or a choice that names no tool."""
    names = [tool.function.name for tool in tools]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidRequestError(
                f"tools[{index}].function.name is {name!r}, like an earlier tool's: give each tool"
                " a name of its own."
            )
        schema = tools[index].function.parameters
        if schema and schema.get("type", "object") != "object":
            place = f"tools[{index}].function.parameters"
            raise InvalidRequestError(f'{place} must describe an object: set its type to "object".')
    if not names and choice not in (None, "none"):
        raise InvalidRequestError("tool_choice needs tools: send tools, or leave tool_choice out.")
    if isinstance(choice, NamedToolChoice) and choice.function.name not in names:
        raise InvalidRequestError(
            f"tool_choice names the function {choice.function.name!r}, which is not in tools: use"
            f" one of {', '.join(names):.200}."
        )


def schemas_of_arguments(tools: list[FunctionTool]) -> list[RequestedGrammar]:
    """Return the form of each function's arguments."""
    return [
        RequestedGrammar(
            "tools",
            f"tools[{index}].function.parameters",
            _form(tool.function.schema_of_arguments()),
        )
        for index, tool in enumerate(tools)
    ]


def forced_grammar(
    tools: list[FunctionTool], choice: ToolChoice | None, *, parallel: bool
) -> RequestedGrammar | None:
    """Return the form of a call that the model must make, if any. parallel: or of several calls"""
    if isinstance(choice, NamedToolChoice):
        index = [tool.function.name for tool in tools].index(choice.function.name)
        return schemas_of_arguments(tools)[index]._replace(field="tool_choice")
    if choice != "required":
        return None
    calls, schemas = [], {}
    for tool in tools:
        name = tool.function.name
        schemas[name] = {"$id": f"tool:{name}"} | tool.function.schema_of_arguments()
        schemas[name].pop("$schema", None)  # older drafts ignore an `$id` beside a `$ref`
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": name}, "parameters": {"$ref": f"#/$defs/{name}"}},
                "required": ["name", "parameters"],
                "additionalProperties": False,
            }
        )
    most = MAX_CALLS if parallel else 1
    schema = {"type": "array", "items": {"anyOf": calls}, "minItems": 1, "maxItems": most}
    text = json.dumps(schema | {"$defs": schemas})
    if len(text) > (limit := MAX_LENGTH["json"]):  # before each schema is checked by itself
        raise InvalidRequestError(
            f"tools have {len(text):,} characters as one schema: send at most {limit:,}."
        )
    return RequestedGrammar("tool_choice", "tools", _form(text))


def _form(schema: str | dict[str, Any]) -> StructuredOutputsParams:
    return StructuredOutputsParams(json=schema, disable_any_whitespace=True)
