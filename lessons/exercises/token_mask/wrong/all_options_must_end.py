"""A choice may end only if all its options may."""

from minivllm.structured_output.reference import RegexState, _Either
from minivllm.structured_output.reference import _may_end as right

HINT = "A choice needs only one option. If one of them can be empty, can the choice?"


def _may_end(state: RegexState) -> bool:
    if isinstance(state, _Either):
        return bool(state.options) and all(right(one) for one in state.options)
    return right(state)
