"""If the first part can be empty, it is left out."""

from minivllm.structured_output.reference import RegexState, _may_end, _Then, _then
from minivllm.structured_output.reference import _after as right

HINT = "A part that can be empty need not be. In `a*b`, may a text begin with `a`?"


def _after(state: RegexState, byte: int) -> RegexState:
    if isinstance(state, _Then):
        if _may_end(state.first):
            return _after(state.rest, byte)
        return _then(right(state.first, byte), state.rest)
    return right(state, byte)
