"""However a text is cut into pieces, the parsers find the same message in it."""

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minivllm.server.parsers.base import (
    ArgumentsPiece,
    CallPiece,
    OutputParser,
    ReasoningPiece,
    TextPiece,
)
from minivllm.server.parsers.choose import forced_parser, free_parser

Message = tuple[str, str, list[tuple[str, str]]]
"""Reasoning, content, and the calls with their arguments."""


def hermes() -> OutputParser:
    return free_parser("hermes", None)


def llama() -> OutputParser:
    return free_parser("llama3_json", None)


def read(parser: OutputParser, pieces: list[str]) -> Message:
    reasoning, content, calls = "", "", []
    found = [piece for text in pieces for piece in parser.feed(text)]
    for piece in found + parser.finish():
        match piece:
            case TextPiece(text):
                content += text
            case ReasoningPiece(text):
                reasoning += text
            case CallPiece(name):
                calls.append((name, ""))
            case ArgumentsPiece(text):
                calls[-1] = (calls[-1][0], calls[-1][1] + text)
    return reasoning, content, calls


CALL = '{"name": "time", "arguments": {"zone": "a \\"}{ b", "deep": [{}]}}'
ARGUMENTS = '{"zone": "a \\"}{ b", "deep": [{}]}'
DEEP = '{"arguments": {"a": ' + "[" * 300 + "]" * 300 + '}, "name": "f"}'
CASES: list[tuple[Callable[[], OutputParser], str, Message]] = [
    (hermes, "no call, a < b", ("", "no call, a < b", [])),
    (hermes, f"<tool_call>\n{CALL}\n</tool_call>", ("", "", [("time", ARGUMENTS)])),
    (
        hermes,
        f"First.\n<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>\n Then.",
        ("", "First.\nThen.", [("time", ARGUMENTS)] * 2),
    ),
    (hermes, '<tool_call>{"arguments": {}, "name": "f"}</tool_call>', ("", "", [("f", "{}")])),
    (
        hermes,
        '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>',
        ("", "", [("f", '{"a": 1}')]),
    ),
    (
        hermes,
        f"<tool_call>no</tool_call><tool_call>{CALL}</tool_call>",
        ("", "<tool_call>no</tool_call>", [("time", ARGUMENTS)]),
    ),
    (hermes, '<tool_call>{"a": 1}</tool_call>', ("", '<tool_call>{"a": 1}</tool_call>', [])),
    (
        hermes,
        '<tool_call>{"name": "", "arguments": {}}',
        ("", '<tool_call>{"name": "", "arguments": {}}', []),
    ),
    (
        hermes,
        '<tool_call>{"name": "\\ud800", "arguments": {}}',
        ("", '<tool_call>{"name": "\\ud800", "arguments": {}}', []),
    ),
    (
        hermes,
        '<tool_call>{"arguments": {"a": "\\ud800é"}, "name": "f"}</tool_call>',
        ("", "", [("f", '{"a": "\\ud800\\u00e9"}')]),
    ),
    (llama, DEEP, ("", DEEP, [])),
    (hermes, '<tool_call>\n{"na', ("", '<tool_call>\n{"na', [])),
    (hermes, "a <tool_", ("", "a <tool_", [])),
    (hermes, '<tool_call>{"name": "f", "arguments": {"a', ("", "", [("f", '{"a')])),
    (llama, CALL.replace("arguments", "parameters"), ("", "", [("time", ARGUMENTS)])),
    (llama, f"{CALL}; {CALL}", ("", "", [("time", ARGUMENTS)] * 2)),
    (llama, f"{CALL}\nDone.", ("", "\nDone.", [("time", ARGUMENTS)])),
    (llama, f" Use {CALL}", ("", f" Use {CALL}", [])),
    (llama, '{"name": "Ada", "age": 7} is', ("", '{"name": "Ada", "age": 7} is', [])),
    (llama, " \n", ("", " \n", [])),
    (lambda: forced_parser(None), f"[{CALL},{CALL}]", ("", "", [("time", ARGUMENTS)] * 2)),
    (lambda: forced_parser("f"), '{"a":1}', ("", "", [("f", '{"a":1}')])),
    (lambda: forced_parser("f"), "", ("", "", [("f", "")])),
    (
        lambda: free_parser("hermes", "qwen3"),
        f"<think>\n<tool_call>?\n</think>\n\n<tool_call>{CALL}</tool_call>",
        ("\n<tool_call>?\n", "", [("time", ARGUMENTS)]),
    ),
    (lambda: free_parser(None, "qwen3"), "Hi </think>", ("", "Hi </think>", [])),
    (lambda: free_parser(None, "qwen3"), " <thin", ("", " <thin", [])),
    (lambda: free_parser(None, "qwen3"), "<think>cut </th", ("cut </th", "", [])),
    (lambda: free_parser(None, "deepseek_r1"), "so</think>Hi", ("so", "Hi", [])),
    (lambda: free_parser(None, "deepseek_r1"), "<think>so</think>Hi", ("so", "Hi", [])),
    (lambda: free_parser(None, "deepseek_r1"), "cut", ("cut", "", [])),
]


@pytest.mark.parametrize(("parser", "text", "expected"), CASES, ids=range(len(CASES)))
@settings(max_examples=10)
@given(data=st.data())
def test_any_cut_of_a_text_gives_the_same_message(parser, text, expected, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(cuts)]
    assert read(parser(), pieces) == expected
    assert read(parser(), list(text)) == expected


@given(text=st.text('<tolcal_>/{}"name:,argus[ ];\\\n', max_size=80))
@pytest.mark.parametrize("name", ["hermes", "llama3_json"])
def test_noise_is_parsed_the_same_whole_and_by_character(name, text):
    whole = read(free_parser(name, "qwen3"), [text])
    assert read(free_parser(name, "qwen3"), list(text)) == whole


def test_arguments_are_passed_on_before_the_call_is_complete():
    parser, sent = hermes(), []
    for character in f"<tool_call>{CALL}":
        sent += [piece.text for piece in parser.feed(character) if type(piece) is ArgumentsPiece]
        if "".join(sent) == '{"zone"':
            break
    else:
        pytest.fail("the arguments were held back")
    assert json.loads(ARGUMENTS)["zone"] not in "".join(sent)
