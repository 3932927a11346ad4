"""However a text is cut into pieces, the parsers find the same message in it."""

from functools import partial
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minivllm.server.parsers import tool_calls
from minivllm.server.parsers.message import MessageParser


def read(parser: partial[MessageParser], pieces: list[str]) -> tuple[str, str, list]:
    reading, parts = parser(parallel=True), []
    for place, text in enumerate(pieces or [""], 1):
        parts.append(reading.take(text, ended=place >= len(pieces)))
    return (
        "".join(part.reasoning for part in parts),
        "".join(part.content for part in parts),
        [call for part in parts for call in part.calls],
    )


CALL = '{"name": "time", "arguments": {"zone": "a \\"}{ b", "deep": [{}]}}'
ARGUMENTS = '{"zone": "a \\"}{ b", "deep": [{}]}'
ONE = [("time", ARGUMENTS)]
BOTH = ("", "", ONE * 2)
DEEP = '{"arguments": {"a": ' + "[" * 3000 + "]" * 3000 + '}, "name": "f"}'


def mark(text: str) -> str:
    return f"<tool_call>{text}</tool_call>"


def parser(tools: tool_calls.ToolParser, reasoning: str | None = None) -> partial[MessageParser]:
    return partial(MessageParser, tools, reasoning)


hermes, llama = parser(tool_calls.hermes), parser(tool_calls.llama3_json)
qwen, r1 = (parser(tool_calls.plain_text, name) for name in ("qwen3", "deepseek_r1"))
forced, named = parser(tool_calls.forced_calls), parser(partial(tool_calls.named_call, "f"))
CASES: list[tuple[partial[MessageParser], str, tuple]] = [
    (hermes, "no call, a < b", ("", "no call, a < b", [])),
    (hermes, f"First.\n{mark(CALL)}\n{mark(f' {CALL} ')}\n Then.", ("", "First.\nThen.", ONE * 2)),
    (hermes, mark('{"arguments": {}, "name": "f"}'), ("", "", [("f", "{}")])),
    (hermes, mark('{"name": "f", "arguments": "{\\"a\\": 1}"}'), ("", "", [("f", '{"a": 1}')])),
    (hermes, mark("no") + mark(CALL), ("", mark("no"), [("time", ARGUMENTS)])),
    (hermes, mark('{"a": 1}'), ("", mark('{"a": 1}'), [])),
    (hermes, mark('{"name": "", "arguments": {}}'), ("", mark('{"name": "", "arguments": {}}'), [])),
    (hermes, '<tool_call>\n{"na', ("", '<tool_call>\n{"na', [])),
    (hermes, "a <tool_", ("", "a <tool_", [])),
    (hermes, '<tool_call>{"name": "f", "arguments": {"a',
     ("", '<tool_call>{"name": "f", "arguments": {"a', [])),
    (hermes, f"<tool_call>{CALL}", ("", "", ONE)),
    (llama, DEEP, ("", DEEP, [])),
    (llama, CALL.replace("arguments", "parameters"), ("", "", [("time", ARGUMENTS)])),
    (llama, f"{CALL}; {CALL}", BOTH),
    (llama, f"{CALL}\nDone.", ("", "\nDone.", [("time", ARGUMENTS)])),
    (llama, f" Use {CALL}", ("", f" Use {CALL}", [])),
    (llama, '{"name": "Ada", "age": 7} is', ("", '{"name": "Ada", "age": 7} is', [])),
    (llama, " \n", ("", " \n", [])),
    (forced, f"[{CALL},{CALL}]", BOTH),
    # `max_tokens` can cut inside the next call: a client shows content, so the rest is none.
    (forced, f'[{CALL},{CALL},{{"name":"f","par', BOTH),
    (forced, '[{"na', ("", "", [])),
    (llama, f'{CALL}; {CALL}; {{"type": "func', BOTH),
    (llama, f"{CALL}\n{{so it goes", ("", "\n{so it goes", ONE)),
    (hermes, f'{mark(CALL)}\n<tool_call>\n{{"na', ("", "", ONE)),
    (hermes, f"{mark(CALL)} Hm <tool_call>", ("", "Hm ", ONE)),
    (hermes, f"{mark(CALL)} Hm <tool_", ("", "Hm ", ONE)),
    (hermes, f"{mark(CALL)}<tool_call>{{so it goes", ("", "<tool_call>{so it goes", ONE)),
    (named, '{"a":1}', ("", "", [("f", '{"a":1}')])),
    (named, "", ("", "", [("f", "")])),
    (parser(tool_calls.hermes, "qwen3"), f"<think>\n<tool_call>?\n</think>\n\n{mark(CALL)}",
     ("\n<tool_call>?\n", "", [("time", ARGUMENTS)])),
    (qwen, "Hi </think>", ("", "Hi </think>", [])),
    (qwen, " <thin", ("", " <thin", [])),
    (qwen, "<think>cut </th", ("cut </th", "", [])),
    (r1, "so</think>Hi", ("so", "Hi", [])),
    (r1, "<think>so</think>Hi", ("so", "Hi", [])),
    (r1, "cut", ("cut", "", [])),
]  # fmt: skip


@pytest.mark.parametrize(("parser", "text", "expected"), CASES, ids=range(len(CASES)))
def test_any_cut_of_a_text_gives_the_same_message(parser, text, expected):
    assert read(parser, list(text)) == expected
    for seed in range(10):
        cuts = Random(seed).choices(range(len(text) + 1), k=2 * seed)
        pieces = [text[a:b] for a, b in pairwise(sorted({0, *cuts, len(text)}))]
        assert read(parser, pieces) == expected, pieces


@given(text=st.text('<tolcal_>/{}"name:,argus[ ];\\\n', max_size=80))
@pytest.mark.parametrize("tools", [tool_calls.hermes, tool_calls.llama3_json])
def test_noise_is_parsed_the_same_whole_and_by_character(tools, text):
    noisy = parser(tools, "qwen3")
    assert read(noisy, list(text)) == read(noisy, [text])
