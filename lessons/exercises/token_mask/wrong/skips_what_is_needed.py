"""A byte may always belong to the rest of a sequence."""

from minivllm.structured_output.reference import RegexState, _either, _Then, _then
from minivllm.structured_output.reference import _after as right

HINT = "In `ab`, may a text begin with `b`? Only a part that can be empty can be left out."


def _after(state: RegexState, byte: int) -> RegexState:
    if isinstance(state, _Then):
        first, rest = right(state.first, byte), _after(state.rest, byte)
        return _either([_then(first, state.rest), rest])
    return right(state, byte)
