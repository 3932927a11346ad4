"""Tool calls in chats, through OpenAI's client: forced by a grammar, or chosen by the model."""

import json
import time
from collections.abc import Iterator

import jsonschema_rs
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from support.engine.engine_fakes import EOS
from support.random_schemas import LEAVES, objects_of
from support.server.live_server import ChattyTokenizer, GatedRunner, LiveServer, serving

from minivllm.config import EngineConfig
from minivllm.core.request import Sequence
from minivllm.engine.engine import LLMEngine
from minivllm.errors import ConfigError
from minivllm.outputs import SampledToken
from minivllm.runtime.loader import load_model
from minivllm.server.options import ServerOptions
from minivllm.server.protocol.tools import FunctionTool, forced_grammar

ASK = [{"role": "user", "content": "How warm is Oslo?"}]
CITY = {"$ref": "#/$defs/City"}
WEATHER = {
    "type": "object",
    "properties": {"city": CITY, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city"],
    "$defs": {"City": {"enum": ["Oslo", "Lima"]}},
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "Look outside.", "parameters": WEATHER},
    },
    {"type": "function", "function": {"name": "now"}},
]
NAMED = {"type": "function", "function": {"name": "weather"}}


def fits(call: object) -> bool:
    arguments = json.loads(call.function.arguments)
    return (
        arguments == {}
        if call.function.name == "now"
        else jsonschema_rs.is_valid(WEATHER, arguments)
    )


def streamed(stream: Iterator) -> tuple[dict, str]:
    """Return the message that a client joins from a stream, without ids, and why it ended."""
    message = {"content": "", "reasoning": "", "calls": []}
    for chunk in stream:
        delta = chunk.choices[0].delta
        message["content"] += delta.content or ""
        message["reasoning"] += getattr(delta, "reasoning_content", None) or ""
        for call in delta.tool_calls or ():
            if call.id is not None:
                assert call.index == len(message["calls"]) and call.type == "function"
                assert call.function.name and call.function.arguments == ""
                message["calls"].append([call.function.name, ""])
            else:
                assert call.function.name is None
                message["calls"][call.index][1] += call.function.arguments
    return message, chunk.choices[0].finish_reason


def joined(message: ChatCompletionMessage) -> dict:
    calls = [[call.function.name, call.function.arguments] for call in message.tool_calls or ()]
    reasoning = getattr(message, "reasoning_content", None) or ""
    return {"content": message.content or "", "reasoning": reasoning, "calls": calls}


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
@pytest.mark.parametrize("parallel", [True, False])
def test_a_forced_call_has_valid_arguments_streamed_or_not(
    tiny_server: LiveServer, choice, parallel
):
    client = tiny_server.openai()
    for seed in range(5):
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


def test_a_forced_call_that_max_tokens_cuts_off_says_so(tiny_server: LiveServer):
    answer = tiny_server.openai().chat.completions.create(
        model="tiny-random", messages=ASK, tools=TOOLS, tool_choice=NAMED, max_tokens=4
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.tool_calls[0].function.arguments == '{"ci'


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


@pytest.fixture(scope="module")
def house_server() -> Iterator[LiveServer]:
    config = EngineConfig(
        model="house", dtype="float32", device="cpu", attention_backend="torch", max_model_len=512
    )
    with serving(LLMEngine.from_model(config, load_model(config))) as live:
        yield live


@settings(max_examples=15, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
@given(schemas=st.lists(objects_of(LEAVES), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_every_required_call_of_the_house_model_at_temperature_one_has_valid_arguments(
    house_server: LiveServer, schemas, seed
):
    tools = [
        {"type": "function", "function": {"name": f"f{i}", "parameters": schema}}
        for i, schema in enumerate(schemas)
    ]
    answer = house_server.openai().chat.completions.create(
        model="house", messages=[{"role": "user", "content": "Write a story."}], tools=tools,
        tool_choice="required", temperature=1, seed=seed, n=2, max_tokens=400,
        parallel_tool_calls=seed % 2 == 0,
    )  # fmt: skip
    for choice in answer.choices:
        calls = choice.message.tool_calls or []
        assert calls or choice.finish_reason == "length"
        # A text that max_tokens cuts off can end inside of its last call.
        for call in calls if choice.finish_reason == "tool_calls" else calls[:-1]:
            schema = schemas[int(call.function.name.removeprefix("f"))]
            jsonschema_rs.validate(schema, json.loads(call.function.arguments))


class ToolTokenizer(ChattyTokenizer):
    """Writes the tools before the messages."""

    template_knows_tools = True

    def apply_chat_template(self, messages: list[dict], tools: list[dict] = ()) -> list[int]:
        return self.encode(json.dumps([tools, messages]))


class ScriptedRunner(GatedRunner):
    """Writes the same text for every request."""

    text = ""

    def _sample(self, sequence: Sequence) -> SampledToken:
        written = len(sequence.output_token_ids)
        return SampledToken(ord(self.text[written]) - 32 if written < len(self.text) else EOS)


@pytest.fixture(scope="module")
def scripted() -> Iterator[LiveServer]:
    config = EngineConfig(model="scripted", block_size=4, max_num_seqs=8)
    engine = LLMEngine(config, ScriptedRunner(1000, 4, 3000), ToolTokenizer())
    with serving(
        engine, enable_auto_tool_choice=True, tool_call_parser="hermes", reasoning_parser="qwen3"
    ) as live:
        yield live


CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
ARGUMENTS = '{"city": "Oslo"}'


@pytest.mark.parametrize(
    ("text", "extra", "expected", "reason"),
    [
        ("I know it.", {}, ("I know it.", "", []), "stop"),
        (f"Let me look. {CALL}", {}, ("Let me look. ", "", [["weather", ARGUMENTS]]), "tool_calls"),
        (f"<think>Hm</think>{CALL * 2}", {}, ("", "Hm", [["weather", ARGUMENTS]] * 2),
         "tool_calls"),
        (CALL * 2, {"parallel_tool_calls": False}, ("", "", [["weather", ARGUMENTS]]),
         "tool_calls"),
        (CALL, {"tool_choice": "none"}, (CALL, "", []), "stop"),
        (CALL, {"max_tokens": 51}, ("", "", [["weather", '{"city"']]), "length"),
    ],
    ids=["text", "call", "reasoning", "one call", "none", "cut off"],
)  # fmt: skip
def test_what_the_model_writes_by_itself_becomes_a_message(scripted, text, extra, expected, reason):
    scripted.runner.text = text
    fields = {"model": "scripted", "messages": ASK, "tools": TOOLS, **extra}
    client = scripted.openai()
    answer = client.chat.completions.create(**fields).choices[0]
    content, reasoning, calls = expected
    assert joined(answer.message) == {"content": content, "reasoning": reasoning, "calls": calls}
    assert answer.finish_reason == reason
    assert (answer.message.content is None) == bool(calls and not content)
    pieces = client.chat.completions.create(stream=True, **fields)
    assert streamed(pieces) == (joined(answer.message), reason)


def test_the_template_gets_tools_calls_and_results_as_transformers_passes_them(scripted):
    scripted.runner.text = "It is 7."
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
    said = {"role": "assistant", "tool_calls": [call], "reasoning_content": "Hm"}
    result = {"role": "tool", "tool_call_id": "a", "content": "7"}
    strict = {"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}
    answer = scripted.openai().chat.completions.create(
        model="scripted", messages=[*ASK, said, result], tools=[strict, TOOLS[1]],
        extra_body={"return_token_ids": True},
    )  # fmt: skip
    tools, messages = json.loads(scripted.engine.tokenizer.decode(answer.prompt_token_ids))
    assert tools == TOOLS
    call["function"] = {"name": "weather", "arguments": {"city": "Oslo"}}
    assert messages == [*ASK, said | {"content": ""}, result]


def with_function(**function: object) -> list[dict]:
    return [{"type": "function", "function": function}]


def with_call(**call: object) -> list[dict]:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}} | call
    return [*ASK, {"role": "assistant", "tool_calls": [call]}]


RESULT = {"role": "tool", "content": "7"}
WRONG = {"type": "b"}
ENDLESS = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
BAD = [
    ({"tools": with_function()}, "tools[0].function.name", "missing"),
    ({"tools": with_function(name="a b")}, "tools[0].function.name", "match"),
    ({"tools": [*TOOLS, TOOLS[1]]}, "tools[2].function.name", "'now'"),
    ({"tools": [{"type": "retrieval"}]}, "tools[0].type", "function"),
    ({"tools": with_function(name="f", parameters={"type": "array"})},
     "tools[0].function.parameters", "object"),
    ({"tools": [TOOLS[0], *with_function(name="f", parameters={"properties": {"a": WRONG}})]},
     "tools[1].function.parameters", "Invalid type"),
    ({"tools": with_function(name="f", parameters=ENDLESS)},
     "tools[0].function.parameters", "endless"),
    ({"tools": with_function(name="f", parameters=ENDLESS),
      "tool_choice": {"type": "function", "function": {"name": "f"}}},
     "tools[0].function.parameters", "endless"),
    ({"tools": with_function(name="f", parameters={"const": "x" * 100_000})}, "tools", "100,000"),
    ({"tool_choice": "sometimes"}, "tool_choice", "required"),
    ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice", "weather"),
    ({"tool_choice": {"type": "function", "function": {}}}, "tool_choice.function.name", "missing"),
    ({"tools": None}, "tool_choice", "needs tools"),
    ({"tool_choice": "auto"}, "tool_choice", "template"),
    ({"response_format": {"type": "json_object"}}, "response_format", "tool_choice"),
    ({"messages": [*ASK, RESULT]}, "messages[1].tool_call_id", "missing"),
    ({"messages": [*with_call(), RESULT | {"tool_call_id": "b"}]},
     "messages[2].tool_call_id", "'b'"),
    ({"messages": with_call(id=None)}, "messages[1].tool_calls[0].id", "string"),
    ({"messages": with_call(function={"name": "f", "arguments": "[]"})},
     "messages[1].tool_calls[0].function.arguments", "object"),
    ({"messages": with_call(function={"name": "f", "arguments": '{"a":' * 990 + "1" + "}" * 990})},
     "messages[1].tool_calls[0].function.arguments", "object"),
    ({"messages": [with_call()[1] | {"role": "user"}]}, "messages[0].tool_calls", "assistant"),
    *(({"tools": value}, "tools", "list") for value in (1, "a", {})),
    *(({"tools": value}, "tools[0]", "object") for value in ([1], ["a"], [[]])),
    ({"tools": [{}]}, "tools[0].type", "missing"),
    ({"tools": [{"type": "function"}]}, "tools[0].function", "missing"),
    ({"tools": [{"type": "function", "function": []}]}, "tools[0].function", "object"),
    *(({"tools": with_function(name=name)}, "tools[0].function.name", "should")
      for name in ("", 5, None, "a" * 65, "\u00e9")),
    *(({"tools": with_function(name="f", parameters=value)}, "tools[0].function.parameters",
       "object") for value in ([], "{}", {"type": ["object", "null"]}, {"type": 5})),
    *(({"tools": with_function(name="f", strict=True, parameters={"properties": {"a": value}})},
       "tools[0].function.parameters", "not valid")
      for value in ({"not": {}}, {"pattern": "("}, {"uniqueItems": True})),
    ({"tools": with_function(name="f", strict="yes")}, "tools[0].function.strict", "boolean"),
    ({"tools": with_function(name="f", description=5)}, "tools[0].function.description", "string"),
    ({"tools": with_function(name="f", returns={})}, "tools[0].function.returns", "Unknown"),
    ({"tools": [with_function(name=f"f{i}")[0] for i in range(129)]}, "tools", "128"),
    ({"tools": []}, "tool_choice", "needs tools"),
    ({"tools": with_function(name="f", parameters=json.loads('{"items":' * 40 + "{}" + "}" * 40))},
     "tools", "32 levels"),
    *(({"tool_choice": value}, "tool_choice", "required") for value in (1, True, "weather")),
    ({"tool_choice": {}}, "tool_choice.type", "missing"),
    ({"tool_choice": NAMED | {"type": "tool"}}, "tool_choice.type", "function"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.function", "missing"),
    ({"tool_choice": {"type": "function", "function": {"name": 5}}}, "tool_choice.function.name",
     "string"),
    ({"tool_choice": {"type": "function", "function": {"name": "a b"}}},
     "tool_choice.function.name", "match"),
    *(({"parallel_tool_calls": value}, "parallel_tool_calls", "boolean")
      for value in ("yes", 1, [], {})),
    ({"guided_regex": "a"}, "guided_regex", "tool_choice"),
    ({"use_beam_search": True, "n": 2, "temperature": 0}, "use_beam_search", "tool_choice"),
    ({"min_tokens": 3}, "min_tokens", "tool_choice"),
    ({"functions": [{"name": "f"}]}, "functions", "not supported"),
    *(({"messages": [*with_call(), RESULT | {"tool_call_id": value}]},
       "messages[2].tool_call_id", "should") for value in (5, "", [])),
    ({"messages": [RESULT | {"tool_call_id": "a"}, *with_call()]},
     "messages[0].tool_call_id", "before"),
    ({"messages": [{"role": "user", "content": "x", "tool_call_id": "a"}]},
     "messages[0].tool_call_id", "role tool"),
    *(({"messages": with_call(function={"name": "f", "arguments": value})},
       "messages[1].tool_calls[0].function.arguments", word)
      for value, word in [("{", "object"), ("5", "object"), ("", "object"), ('{"a":NaN}', "object"),
                          ("{}x", "object"), ({}, "string"), (None, "string")]),
    *(({"messages": with_call(function={"arguments": "{}"} | name)},
       "messages[1].tool_calls[0].function.name", word)
      for name, word in [({}, "missing"), ({"name": "a b"}, "match"), ({"name": "a" * 65}, "match")]),
    ({"messages": with_call(type="code")}, "messages[1].tool_calls[0].type", "function"),
    ({"messages": [*ASK, {"role": "assistant", "tool_calls": {}}]}, "messages[1].tool_calls",
     "list"),
    ({"messages": [*ASK, {"role": "function", "name": "f", "content": "x"}]}, "messages[1].role",
     "tool"),
    ({"messages": [*with_call(), RESULT | {"tool_call_id": "a", "content": {"a": 1}}]},
     "messages[2].content", "string"),
    ({"messages": [*ASK, {"role": "assistant", "content": "x", "reasoning_content": 5}]},
     "messages[1].reasoning_content", "string"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "param", "word"), BAD, ids=range(len(BAD)))
def test_bad_tools_are_refused_with_their_place_before_the_engine_hears_of_them(
    tiny_server: LiveServer, fields, param, word
):
    before = len(tiny_server.events)
    body = {"messages": ASK, "tools": TOOLS, "tool_choice": "required"} | fields
    began = time.process_time()  # the server runs in this process
    with tiny_server.http() as http:
        answer = http.post("/v1/chat/completions", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param), error
    assert word in error["message"] and error["message"].count(". ") == 0
    assert len(tiny_server.events) == before
    assert time.process_time() - began < 1.0


def test_each_function_keeps_its_own_definitions():
    def tool(name: str, value: object) -> FunctionTool:
        parameters = {
            "type": "object",
            "properties": {"enum": {"$ref": "#/$defs/X"}, "next": {"$ref": "#"}},
            "required": ["enum"],
            "$defs": {"X": {"const": value}},
        }
        return FunctionTool.model_validate(with_function(name=name, parameters=parameters)[0])

    tools = [tool("a", {"$ref": "#"}), tool("b", 2)]
    schema = json.loads(forced_grammar(tools, "required", parallel=True).params.json)

    def fits_form(name: str, **parameters: object) -> bool:
        return jsonschema_rs.is_valid(schema, [{"name": name, "parameters": parameters}])

    own = {"enum": {"$ref": "#"}}
    assert fits_form("a", **own) and fits_form("a", **own, next=own) and fits_form("b", enum=2)
    assert not fits_form("b", **own) and not fits_form("a", enum=2) and not fits_form("a")
    assert not fits_form("b", enum=2, next=own) and not fits_form("b", enum=2, other=1)
    assert not jsonschema_rs.is_valid(schema, [])


def test_a_server_without_a_parser_names_the_options_that_auto_needs():
    config = EngineConfig(model="scripted", block_size=4, max_num_seqs=8)
    engine = LLMEngine(config, ScriptedRunner(1000, 4, 3000), ToolTokenizer())
    with serving(engine) as live, pytest.raises(openai.BadRequestError) as refused:
        live.openai().chat.completions.create(model="scripted", messages=ASK, tools=TOOLS)
    assert "--enable-auto-tool-choice and --tool-call-parser" in str(refused.value)
    with pytest.raises(ConfigError, match="hermes or llama3_json"):
        ServerOptions(enable_auto_tool_choice=True)


def test_the_responses_api_is_refused_with_the_path_to_use(tiny_server: LiveServer):
    with pytest.raises(openai.NotFoundError, match="/v1/chat/completions"):
        tiny_server.openai().responses.create(model="tiny-random", input="Hi")


def test_a_form_for_the_answer_contradicts_tools_that_the_model_may_choose(scripted):
    with pytest.raises(openai.BadRequestError, match="response_format sets the form"):
        scripted.openai().chat.completions.create(
            model="scripted", messages=ASK, tools=TOOLS, response_format={"type": "json_object"}
        )
