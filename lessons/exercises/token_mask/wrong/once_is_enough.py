"""A repetition ends behind its first round."""

from minivllm.structured_output.reference import RegexState, _Repeat
from minivllm.structured_output.reference import _after as right

HINT = "After one round of `(ab)*`, may another one follow? What is left must say so."


def _after(state: RegexState, byte: int) -> RegexState:
    return right(state.inner, byte) if isinstance(state, _Repeat) else right(state, byte)
