"""The mask is part of the scores, so it is scaled too."""

from minivllm.runtime.attention import partial as engine

HINT = (
    "`scale` belongs to the products of queries and keys. What does a mask of -1 become if it is"
    " scaled by a half?"
)

_right = engine.attend_in_steps


def attend_in_steps(query, key, value, scale, is_causal=False, mask=None):
    scaled = None if mask is None else mask.float() * scale
    return _right(query, key, value, scale, is_causal, scaled)
