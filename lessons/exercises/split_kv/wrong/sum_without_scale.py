"""The log-sum-exp is taken over the unscaled products of queries and keys."""

from minivllm.runtime.attention import partial as engine

HINT = "The weights are exp of the scaled scores. The weight of a part must use the same numbers."

_right = engine.attend_in_steps


def attend_in_steps(query, key, value, scale, is_causal=False, mask=None):
    output, _ = _right(query, key, value, scale, is_causal, mask)
    _, log_sum_exp = _right(
        query, key, value, 1.0, is_causal, None if mask is None else mask.float() / scale
    )
    return output, log_sum_exp
