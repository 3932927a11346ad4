"""The rest of a sequence begins only behind its first part, also if that can be empty."""

from minivllm.structured_output.reference import RegexState, _Then, _then
from minivllm.structured_output.reference import _after as right

HINT = "In `a*b`, the text can begin with `b`. To which part does the byte belong?"


def _after(state: RegexState, byte: int) -> RegexState:
    if isinstance(state, _Then):
        return _then(right(state.first, byte), state.rest)
    return right(state, byte)
