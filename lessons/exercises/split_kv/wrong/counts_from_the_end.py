"""The last query sees the last token, and earlier queries see correspondingly less."""

import torch

from minivllm.runtime.attention import partial as engine

HINT = (
    "That is true if the queries belong to the newest tokens. Here query i always sees tokens 0 to"
    " i."
)

_right = engine.attend_in_steps


def attend_in_steps(query, key, value, scale, is_causal=False, mask=None):
    if is_causal:
        num_queries, num_tokens = query.shape[2], key.shape[2]
        future = torch.full((num_queries, num_tokens), -torch.inf).triu(
            1 + num_tokens - num_queries
        )[None, None]
        mask = future if mask is None else mask + future
    return _right(query, key, value, scale, mask=mask)
