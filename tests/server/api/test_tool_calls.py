"""Tool calls in chats, through OpenAI's client: forced by a grammar, or chosen by the model."""

import json
from collections.abc import Iterator

import jsonschema_rs
import openai
import pytest
from msgspec import convert
from openai.types.chat import ChatCompletionMessage
from support.engine.engine_fakes import EOS
from support.server.in_process import in_process
from support.server.live_server import LiveServer, fake_engine

from minivllm.core.request import Sequence
from minivllm.engine.engine import LLMEngine
from minivllm.errors import ConfigError
from minivllm.outputs import SampledToken
from minivllm.server.options import ServerOptions
from minivllm.server.protocol.tools import FunctionTool, forced_grammar

ASK = [{"role": "user", "content": "How warm is Oslo?"}]
CITY = {"$ref": "#/$defs/City"}
WEATHER = {
    "type": "object", "required": ["city"], "$defs": {"City": {"enum": ["Oslo", "Lima"]}},
    "properties": {"city": CITY, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
}  # fmt: skip
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "now", "description": "Look at the clock."}},
]
NAMED = {"type": "function", "function": {"name": "weather"}}


def fits(call: object) -> bool:
    arguments = json.loads(call.function.arguments)
    is_weather = call.function.name == "weather"
    return jsonschema_rs.is_valid(WEATHER, arguments) if is_weather else arguments == {}


def streamed(stream: Iterator) -> tuple[dict, str]:
    """Return the message that a client joins from a stream, without ids, and why it ended."""
    message = {"content": "", "reasoning": "", "calls": []}
    for chunk in stream:
        delta = chunk.choices[0].delta
        message["content"] += delta.content or ""
        message["reasoning"] += getattr(delta, "reasoning_content", None) or ""
        for call in delta.tool_calls or ():
            assert call.id and call.index == len(message["calls"]) and call.type == "function"
            message["calls"].append([call.function.name, call.function.arguments])
    return message, chunk.choices[0].finish_reason


def joined(message: ChatCompletionMessage) -> dict:
    calls = [[call.function.name, call.function.arguments] for call in message.tool_calls or ()]
    reasoning = getattr(message, "reasoning_content", None) or ""
    return {"content": message.content or "", "reasoning": reasoning, "calls": calls}


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
@pytest.mark.parametrize("parallel", [True, False])
def test_a_forced_call_has_valid_arguments_streamed_or_not(tiny_server, choice, parallel):
    client = tiny_server.openai()
    for seed in range(2):
        fields = {
            "model": "tiny-random", "messages": ASK, "tools": TOOLS, "tool_choice": choice,
            "parallel_tool_calls": parallel, "seed": seed, "max_tokens": 600,
        }  # fmt: skip
        answer = client.chat.completions.create(**fields).choices[0]
        calls = answer.message.tool_calls
        assert answer.finish_reason == "tool_calls" and answer.message.content is None
        assert all(map(fits, calls)) and (parallel or len(calls) == 1)
        assert len({call.id for call in calls}) == len(calls)
        if choice == NAMED:
            assert [call.function.name for call in calls] == ["weather"]
        pieces = client.chat.completions.create(stream=True, **fields)
        assert streamed(pieces) == (joined(answer.message), "tool_calls")


def test_a_call_and_its_result_are_part_of_the_next_prompt(tiny_server: LiveServer):
    client, tokenizer = tiny_server.openai(), tiny_server.engine.tokenizer
    fields = {"model": "tiny-random", "tools": TOOLS, "max_tokens": 60, "seed": 1}
    answer = client.chat.completions.create(messages=ASK, tool_choice=NAMED, **fields)
    message = answer.choices[0].message
    (call,) = message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": "It is 7 degrees."}
    following = client.chat.completions.create(
        messages=[*ASK, message, result], tool_choice="none",
        extra_body={"return_token_ids": True}, **fields,
    )  # fmt: skip
    prompt = tokenizer.decode(following.prompt_token_ids)
    assert f'[{{"name":"weather","parameters":{call.function.arguments}}}]' in prompt
    assert prompt.index("weather") < prompt.index("It is 7 degrees.")
    assert following.choices[0].message.tool_calls is None
    assert following.choices[0].finish_reason == "length"


def tool_engine() -> LLMEngine:
    """An engine whose chat template writes the tools before the messages."""
    engine = fake_engine(1000, 3000)
    tokenizer = engine.tokenizer
    tokenizer.template_knows_tools = True
    tokenizer.apply_chat_template = lambda messages, tools=(): tokenizer.encode(
        json.dumps([tools, messages])
    )
    return engine


def write(live: LiveServer, text: str) -> None:
    """Let the model write this text for every request."""

    def draw(sequence: Sequence) -> SampledToken:
        rest = text[len(sequence.output_token_ids) :]
        return SampledToken(ord(rest[0]) - 32 if rest else EOS)

    live.runner.draw = draw


@pytest.fixture(scope="module")
def scripted() -> Iterator[LiveServer]:
    parsers = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}
    with in_process(tool_engine(), enable_auto_tool_choice=True, **parsers) as live:
        yield live


CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
ARGUMENTS = '{"city": "Oslo"}'
ONE = [["weather", ARGUMENTS]]


@pytest.mark.parametrize(
    ("text", "extra", "expected", "reason"),
    [
        ("I know it.", {}, ("I know it.", "", []), "stop"),
        (f"Let me look. {CALL}", {}, ("Let me look. ", "", ONE), "tool_calls"),
        (f"<think>Hm</think>{CALL * 2}", {}, ("", "Hm", ONE * 2), "tool_calls"),
        (CALL * 2, {"parallel_tool_calls": False}, ("", "", ONE), "tool_calls"),
        (CALL, {"tool_choice": "none"}, (CALL, "", []), "stop"),
        (CALL, {"max_tokens": 51}, (CALL[:51], "", []), "length"),
        (CALL * 2, {"max_tokens": len(CALL) + 12}, ("", "", ONE), "length"),
    ],
    ids=["text", "call", "reasoning", "one call", "none", "cut off", "second cut off"],
)  # fmt: skip
def test_what_the_model_writes_by_itself_becomes_a_message(scripted, text, extra, expected, reason):
    write(scripted, text)
    fields = {"model": "fake", "messages": ASK, "tools": TOOLS, **extra}
    client = scripted.openai()
    answer = client.chat.completions.create(**fields).choices[0]
    content, reasoning, calls = expected
    assert joined(answer.message) == {"content": content, "reasoning": reasoning, "calls": calls}
    assert answer.finish_reason == reason
    assert (answer.message.content is None) == bool(calls and not content)
    pieces = client.chat.completions.create(stream=True, **fields)
    assert streamed(pieces) == (joined(answer.message), reason)


def test_the_template_gets_tools_calls_and_results_as_transformers_passes_them(scripted):
    write(scripted, "It is 7.")
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
    said = {"role": "assistant", "tool_calls": [call], "reasoning_content": "Hm"}
    later = {"role": "assistant", "tool_calls": [call | {"id": "b"}]}
    result = {"role": "tool", "tool_call_id": "a", "content": "7"}
    strict = {"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}
    answer = scripted.openai().chat.completions.create(
        model="fake", messages=[*ASK, said, later, result], tools=[strict, TOOLS[1]],
        extra_body={"return_token_ids": True},
    )  # fmt: skip
    tools, messages = json.loads(scripted.engine.tokenizer.decode(answer.prompt_token_ids))
    assert tools == TOOLS
    call["function"]["arguments"] = {"city": "Oslo"}
    assert messages == [*ASK, said | {"content": ""}, later | {"content": ""}, result]


def with_function(**function: object) -> list[dict]:
    return [{"type": "function", "function": function}]


def with_call(**call: object) -> list[dict]:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}} | call
    return [*ASK, {"role": "assistant", "tool_calls": [call]}]


RESULT = {"role": "tool", "content": "7"}
BAD = [
    ({"tools": with_function()}, "tools[0].function.name", "missing"),
    ({"tools": with_function(name="a b")}, "tools[0].function.name", "regex"),
    ({"tools": [*TOOLS, TOOLS[1]]}, "tools[2].function.name", "'now'"),
    ({"tools": with_function(name="f", parameters={"type": "array"})},
     "tools[0].function.parameters", "object"),
    ({"tools": with_function(name="f", parameters={"const": "x" * 100_000})}, "tools", "100,000"),
    ({"tools": with_function(name="f", returns={})}, "tools[0].function.returns", "Unknown"),
    ({"tools": [with_function(name=f"f{i}")[0] for i in range(129)]}, "tools", "128"),
    ({"tools": []}, "tool_choice", "needs tools"),
    ({"tool_choice": "sometimes"}, "tool_choice", "'sometimes'"),
    ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice", "weather"),
    ({"tool_choice": "auto"}, "tool_choice", "template"),
    ({"response_format": {"type": "json_object"}}, "response_format", "tool_choice"),
    ({"min_tokens": 3}, "min_tokens", "tool_choice"),
    ({"functions": [{"name": "f"}]}, "functions", "length <= 0"),
    ({"messages": [*ASK, RESULT]}, "messages[1].tool_call_id", "None"),
    ({"messages": [*with_call(), RESULT | {"tool_call_id": "b"}]},
     "messages[2].tool_call_id", "'b'"),
    ({"messages": [RESULT | {"tool_call_id": "a"}, *with_call()]},
     "messages[0].tool_call_id", "earlier"),
    *(({"messages": with_call(function={"name": "f", "arguments": value})},
       "messages[1].tool_calls[0].function.arguments", "object")
      for value in ("[]", "{", '{"a":NaN}', '{"a":' * 990 + "1" + "}" * 990)),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "param", "word"), BAD, ids=range(len(BAD)))
def test_bad_tools_are_refused_by_their_place_and_never_queued(tiny_server, fields, param, word):
    before = len(tiny_server.events)
    body = {"messages": ASK, "tools": TOOLS, "tool_choice": "required"} | fields
    answer = tiny_server.post("/v1/chat/completions", body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param), error
    assert word in error["message"] and error["message"].count(". ") == 0
    assert len(tiny_server.events) == before


def test_each_function_keeps_its_own_definitions():
    def tool(name: str, value: object) -> FunctionTool:
        parameters = {
            "type": "object", "required": ["enum"], "$defs": {"X": {"const": value}},
            "properties": {"enum": {"$ref": "#/$defs/X"}, "next": {"$ref": "#"}},
        }  # fmt: skip
        return convert(with_function(name=name, parameters=parameters)[0], FunctionTool)

    tools = [tool("a", {"$ref": "#"}), tool("b", 2)]
    schema = json.loads(forced_grammar(tools, "required", parallel=True).params.json)

    def fits_form(name: str, **parameters: object) -> bool:
        return jsonschema_rs.is_valid(schema, [{"name": name, "parameters": parameters}])

    own = {"enum": {"$ref": "#"}}
    assert fits_form("a", **own) and fits_form("a", **own, next=own) and fits_form("b", enum=2)
    for name, parameters in (
        ("b", own), ("a", {"enum": 2}), ("a", {}), ("b", {"enum": 2, "next": own}),
        ("b", {"enum": 2, "other": 1}),
    ):  # fmt: skip
        assert not fits_form(name, **parameters)


@pytest.mark.parametrize(
    ("named", "reference"),
    [({"$id": "https://own.example/x"}, "https://own.example/x#/$defs/X"),
     ({"$schema": "http://json-schema.org/draft-04/schema#"}, "#/$defs/X"), ({}, "#anchor")],
)  # fmt: skip
def test_a_schema_may_have_a_name_a_draft_and_anchors_of_its_own(tiny_server, named, reference):
    parameters = {
        **named, "type": "object", "required": ["a"], "properties": {"a": {"$ref": reference}},
        "$defs": {"X": {"$anchor": "anchor", "const": 7}},
    }  # fmt: skip
    answer = tiny_server.openai().chat.completions.create(
        model="tiny-random", messages=ASK, max_tokens=40, tool_choice="required",
        tools=with_function(name="f", parameters=parameters), parallel_tool_calls=False,
    )  # fmt: skip
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.arguments == '{"a":7}'


def test_the_form_has_one_call_unless_they_may_be_parallel_and_then_sixteen():
    tools = [convert(TOOLS[1], FunctionTool)]
    for parallel, most in ((False, 1), (True, 16)):
        schema = json.loads(forced_grammar(tools, "required", parallel=parallel).params.json)
        calls = [{"name": "now", "parameters": {}}] * (most + 1)
        assert jsonschema_rs.is_valid(schema, calls[:most])
        assert not jsonschema_rs.is_valid(schema, calls)


def test_arguments_that_are_declared_elsewhere_in_the_schema_are_allowed():
    days = {"properties": {"days": {"type": "integer"}}}
    for more in ({"allOf": [days]}, {"$ref": "#/$defs/Days", "$defs": {"Days": days}}):
        parameters = {"type": "object", "properties": {"city": {}}, **more}
        tool = convert(with_function(name="f", parameters=parameters)[0], FunctionTool)
        schema = tool.function.schema_of_arguments()
        assert jsonschema_rs.is_valid(schema, {"city": "Oslo", "days": 3})
        assert not jsonschema_rs.is_valid(schema, {"city": "Oslo", "days": "many"})


def test_a_server_without_a_parser_names_the_options_that_auto_needs():
    with in_process(tool_engine()) as live, pytest.raises(openai.BadRequestError) as refused:
        live.openai().chat.completions.create(model="fake", messages=ASK, tools=TOOLS)
    assert "--enable-auto-tool-choice and --tool-call-parser" in str(refused.value)
    with pytest.raises(ConfigError, match="hermes or llama3_json"):
        ServerOptions(enable_auto_tool_choice=True)
