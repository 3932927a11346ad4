"""The log-sum-exp has the dtype of the queries."""

from minivllm.runtime.attention import partial as engine

HINT = (
    "bfloat16 has 8 bits: between 128 and 256 it has only whole numbers. If a log-sum-exp is off by"
    " one, the weight is off by a factor of e."
)

_right = engine.attend_in_steps


def attend_in_steps(query, key, value, scale, is_causal=False, mask=None):
    output, log_sum_exp = _right(query, key, value, scale, is_causal, mask)
    return output, log_sum_exp.to(query.dtype)
