"""A repetition begins a new round with each byte."""

from minivllm.structured_output.reference import NOTHING, RegexState, _Repeat
from minivllm.structured_output.reference import _after as right

HINT = "After the `a` of `(ab)*`, the round is not over. What must come before the next one?"


def _after(state: RegexState, byte: int) -> RegexState:
    if isinstance(state, _Repeat):
        return state if right(state.inner, byte) != NOTHING else NOTHING
    return right(state, byte)
