"""Tool parsers: functions that read the next piece of a text, which is some content or a call.

    hermes        <tool_call>{"name": ..., "arguments": {...}}</tool_call>    Hermes 2 Pro and Qwen
    llama3_json   {"name": "time", "parameters": {}}; {"name": ...}           Llama 3
    forced_calls  [{"name":"time","parameters":{}},{"name":...}]              tool_choice "required"

They return what is certain, and the rest: of `Let me look. <tool`, the piece is `Let me look. `. An
empty piece means that more text must come, or, at its end, that the rest is dropped. A text that
only looks like a call is content. After a call, the beginning of another one is dropped at the end,
because a client shows content.

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
_DECODER = json.JSONDecoder()


class Call(NamedTuple):
    name: str
    arguments: str
    """A JSON object, as the model wrote it."""


class ParserState(NamedTuple):
    """Where in the whole text a parser is."""

    ended: bool  # no more text will come
    num_calls: int  # that it has read
    is_fresh: bool  # it has read no content since the last call


Next = tuple[str | Call, str]
ToolParser = Callable[[str, ParserState], Next]
ToolParserName = Literal["hermes", "llama3_json"]


def plain_text(text: str, state: ParserState) -> Next:
    return text, ""


def named_call(name: str, text: str, state: ParserState) -> Next:
    """The whole text is the arguments of one call, by a grammar."""
    return (Call(name, text), "") if state.ended and not state.num_calls else ("", text)


def hermes(text: str, state: ParserState) -> Next:
    """Text before, between and after the calls is content, without the space after a call."""
    if state.is_fresh:
        text = text.lstrip()
    before, begin, after = text.partition(BEGIN)
    if before:
        is_certain = begin or (state.ended and not state.num_calls)
        sure = len(before) if is_certain else length_without_mark(before, BEGIN)
        return before[:sure], text[sure:]
    body, end, rest = after.partition(END)
    if (end or state.ended) and (call := _read_call(body)):
        return call, rest
    if end:
        return begin + body + end, rest
    if state.ended and state.num_calls and _BEGINNING_OF_CALL.match(body):
        return "", ""
    return (text, "") if state.ended else ("", text)


def _call_list(separators: str, only_calls: bool, text: str, state: ParserState) -> Next:
    """Calls with only separators around them. From the first other text on, all is content."""
    if not state.is_fresh:
        return text, ""
    rest = text.lstrip(separators)
    try:
        _, end = _DECODER.raw_decode(rest)
    except (ValueError, RecursionError):
        end = 0  # the object is not complete yet
    if call := _read_call(rest[:end]):
        return call, rest[end:]
    may_be_call = not rest or (rest[0] == "{" and end == 0)
    if may_be_call and not state.ended:
        return "", text
    is_dropped = only_calls or state.num_calls
    return ("", "") if is_dropped and may_be_call and _BEGINNING_OF_CALL.match(rest) else (text, "")


llama3_json = partial(_call_list, "; \t\n", False)
# Our form has nothing but calls, so its rest is never content.
forced_calls = partial(_call_list, "[,]", True)
TOOL_PARSERS: dict[ToolParserName, ToolParser] = {"hermes": hermes, "llama3_json": llama3_json}


class _Call(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


def _read_call(text: str) -> Call | None:
    """Read `{"name": ..., "arguments": {...}}`; None for a text that is not a call.

    Some models call the arguments parameters, and some write the object as a string.
    """
    try:
        call = msgspec.json.decode(text, type=_Call)
        arguments = bytes(call.arguments or call.parameters).decode()
        if arguments.startswith('"'):
            arguments = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return Call(call.name, arguments) if arguments.startswith("{") else None


def length_without_mark(text: str, mark: str) -> int:
    """Return how many characters of `text` are certainly no part of `mark`, which is not in it.

    "a < <tool" with the mark "<tool_call>" gives 4: the end may become the mark.
    """
    for length in range(min(len(text), len(mark) - 1), 0, -1):
        if text.endswith(mark[:length]):
            return len(text) - length
    return len(text)
