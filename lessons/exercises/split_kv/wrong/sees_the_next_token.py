"""Query i also sees the token after it."""

import torch

from minivllm.runtime.attention import partial as engine

HINT = "Query 0 sees token 0 and no other. At which diagonal does the future begin?"

_right = engine.attend_in_steps


def attend_in_steps(query, key, value, scale, is_causal=False, mask=None):
    if is_causal:
        num_queries, num_tokens = query.shape[2], key.shape[2]
        future = torch.full((num_queries, num_tokens), -torch.inf).triu(2)[None, None]
        mask = future if mask is None else mask + future
    return _right(query, key, value, scale, mask=mask)
