"""`split_reasoning`: separates what is between `<think>` and `</think>` from the answer.

`deepseek_r1` is for templates that write `<think>` themselves: the text begins with reasoning.
`qwen3` is for models that write both marks, or neither.

Source: vLLM `vllm/reasoning/deepseek_r1_reasoning_parser.py` and `qwen3_reasoning_parser.py`.
"""

from typing import Literal

from minivllm.server.parsers.tool_calls import length_without_mark

BEGIN, END = "<think>", "</think>"
ReasoningParserName = Literal["deepseek_r1", "qwen3"]


def split_reasoning(text: str, ended: bool, name: ReasoningParserName) -> tuple[str, str]:
    """Return the reasoning and the answer, as far as both are certain; see `tool_calls`."""
    beginning = text.lstrip()
    if beginning.startswith(BEGIN):
        text = beginning.removeprefix(BEGIN)
    elif BEGIN.startswith(beginning) and not ended:
        return "", ""
    elif name == "qwen3":
        return "", text
    reasoning, mark, answer = text.partition(END)
    sure = len(reasoning) if mark or ended else length_without_mark(reasoning, END)
    return reasoning[:sure], answer
