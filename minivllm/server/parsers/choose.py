"""Which parser reads the output of a request.

    tool_choice     form of the calls                   parser
    none            no tools                            PlainTextParser
    auto            the model's own                     --tool-call-parser
    required        ours, by a grammar                  CallListParser
    a function      its arguments, by a grammar         NamedCallParser

With `--reasoning-parser`, reasoning is separated first. A grammar applies from the first token, so
then there is none.
"""

from typing import Literal

from minivllm.server.parsers.base import OutputParser, PlainTextParser
from minivllm.server.parsers.call_list import (
    LLAMA_SEPARATORS,
    OUR_SEPARATORS,
    CallListParser,
    NamedCallParser,
)
from minivllm.server.parsers.hermes import HermesParser
from minivllm.server.parsers.reasoning import ReasoningParser

ToolParserName = Literal["hermes", "llama3_json"]
ReasoningParserName = Literal["deepseek_r1", "qwen3"]


def forced_parser(function: str | None) -> OutputParser:
    """Return the parser for calls in our form. function: the one that must be called, if named."""
    return CallListParser(OUR_SEPARATORS) if function is None else NamedCallParser(function)


def free_parser(
    tool_name: ToolParserName | None, reasoning_name: ReasoningParserName | None
) -> OutputParser:
    """Return the parser for text without a grammar."""
    parser: OutputParser = PlainTextParser()
    if tool_name is not None:
        parser = HermesParser() if tool_name == "hermes" else CallListParser(LLAMA_SEPARATORS)
    if reasoning_name is None:
        return parser
    return ReasoningParser(parser, begins_with_reasoning=reasoning_name == "deepseek_r1")
