"""A sequence may end as soon as its first part may."""

from minivllm.structured_output.reference import RegexState, _Then
from minivllm.structured_output.reference import _may_end as right

HINT = "In `a*b`, the first part can be empty. What about the second one?"


def _may_end(state: RegexState) -> bool:
    return right(state.first) if isinstance(state, _Then) else right(state)
