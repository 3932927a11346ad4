"""A repetition must be there once."""

from minivllm.structured_output.reference import RegexState, _Repeat, _Then
from minivllm.structured_output.reference import _may_end as right

HINT = "How often may the inner part of a `_Repeat` come, at least?"


def _may_end(state: RegexState) -> bool:
    if isinstance(state, _Then):
        return _may_end(state.first) and _may_end(state.rest)
    if isinstance(state, _Repeat):
        return not isinstance(state.inner, _Then) and right(state)
    return right(state)
