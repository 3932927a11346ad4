"""Tool parsers: functions from the text so far to its content and its calls.

    hermes        <tool_call>{"name": ..., "arguments": {...}}</tool_call>    Hermes 2 Pro and Qwen
    llama3_json   {"name": "time", "parameters": {}}; {"name": ...}           Llama 3
    forced_calls  [{"name":"time","parameters":{}},{"name":...}]              tool_choice "required"

They return what is certain: `Let me look. <tool` is the content `Let me look. ` until more of it is
known, or until the text has ended. A text that only looks like a call is content. After a call, the
beginning of another one is dropped at the end, because a client shows content.

Source: vLLM `vllm/entrypoints/openai/tool_parsers`, `hermes_tool_parser.py` and
`llama_tool_parser.py`.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal, NamedTuple

import msgspec

BEGIN, END = "<tool_call>", "</tool_call>"
_BEGINNING_OF_CALL = re.compile(r'\s*(\{\s*("|$)|$)')
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


class Call(NamedTuple):
    name: str
    arguments: str
    """A JSON object, as the model wrote it."""


ToolParser = Callable[[str, bool], tuple[str, list[Call]]]
"""(text, whether it has ended) -> (content, calls)"""
ToolParserName = Literal["hermes", "llama3_json"]


def plain_text(text: str, ended: bool) -> tuple[str, list[Call]]:
    return text, []


def named_call(name: str, text: str, ended: bool) -> tuple[str, list[Call]]:
    """The whole text is the arguments of one call, by a grammar."""
    return "", [Call(name, text)] if ended else []


def hermes(text: str, ended: bool) -> tuple[str, list[Call]]:
    """Text before, between and after the calls is content, without the space after a call."""
    content, calls, place = "", [], _after_space(text, 0)
    while (begin := text.find(BEGIN, place)) >= 0 and (end := text.find(END, begin)) >= 0:
        call = _read_call(text[begin + len(BEGIN) : end])
        content += text[place:begin] if call else text[place : end + len(END)]
        calls += call
        place = _after_space(text, end + len(END)) if call else end + len(END)
    if begin < 0:
        sure = len(text) if ended and not calls else length_without_mark(text, BEGIN)
        return content + text[place:sure], calls
    body = text[begin + len(BEGIN) :]
    last = _read_call(body) if ended else []
    is_content = ended and not last and not (calls and _BEGINNING_OF_CALL.match(body))
    return content + text[place : None if is_content else begin], calls + last


def _call_list(separators: str, has_calls: bool, text: str, ended: bool) -> tuple[str, list[Call]]:
    """Calls with only separators around them. From the first other text on, all is content."""
    calls: list[Call] = []
    while rest := text.lstrip(separators):
        try:
            _, end = _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            end = 0  # the object is not complete yet
        if not (call := _read_call(rest[:end])):
            break
        calls += call
        text = rest[end:]
    may_be_call = not rest or (rest[0] == "{" and end == 0)
    is_dropped = (has_calls or calls) and _BEGINNING_OF_CALL.match(rest)
    return "" if may_be_call and (is_dropped or not ended) else text, calls


llama3_json = partial(_call_list, "; \t\n", False)
# Our form has nothing but calls, so its rest is never content.
forced_calls = partial(_call_list, "[,]", True)
TOOL_PARSERS: dict[ToolParserName, ToolParser] = {"hermes": hermes, "llama3_json": llama3_json}


class _Call(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


def _read_call(text: str) -> list[Call]:
    """Read `{"name": ..., "arguments": {...}}`; return nothing for a text that is not a call.

    Some models call the arguments parameters, and some write the object as a string.
    """
    try:
        call = msgspec.json.decode(text, type=_Call)
        arguments = bytes(call.arguments or call.parameters).decode()
        if arguments.startswith('"'):
            arguments = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError):
        return []
    return [Call(call.name, arguments)] if arguments.startswith("{") else []


def _after_space(text: str, place: int) -> int:
    return _SPACE.match(text, place).end()


def length_without_mark(text: str, mark: str) -> int:
    """Return how many characters of `text` are certainly no part of `mark`, which is not in it.

    "a < <tool" with the mark "<tool_call>" gives 4: the end may become the mark.
    """
    for length in range(min(len(text), len(mark) - 1), 0, -1):
        if text.endswith(mark[:length]):
            return len(text) - length
    return len(text)
