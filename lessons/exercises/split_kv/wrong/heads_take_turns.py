"""Neighbouring query heads use different key heads."""

from minivllm.runtime.attention import partial as engine

HINT = (
    "With 4 query heads and 2 key heads, heads 0 and 1 share the first key head. Which of your two"
    " new dimensions comes first?"
)

_right = engine.attend_in_steps


def attend_in_steps(query, key, value, scale, is_causal=False, mask=None):
    num_kv_heads = key.shape[1]
    by_key_head = query.unflatten(1, (-1, num_kv_heads)).transpose(1, 2).flatten(1, 2)
    results = _right(by_key_head, key, value, scale, is_causal, mask)
    return tuple(x.unflatten(1, (num_kv_heads, -1)).transpose(1, 2).flatten(1, 2) for x in results)
