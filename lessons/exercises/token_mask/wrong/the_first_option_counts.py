"""Only one of the options that can read the byte is followed."""

from minivllm.structured_output.reference import NOTHING, RegexState, _Either
from minivllm.structured_output.reference import _after as right

HINT = "Two options can begin with the same byte. Which of them will it be? Nobody knows yet."


def _after(state: RegexState, byte: int) -> RegexState:
    if isinstance(state, _Either):
        left = sorted((right(one, byte) for one in state.options), key=repr)
        return next((one for one in left if one != NOTHING), NOTHING)
    return right(state, byte)
