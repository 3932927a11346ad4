"""Attention over a part of a context, and how the results for two parts become the one for both.

Softmax over a context is a weighted mean, so it may be worked out part by part, if each part also
says how much weight it had in all: the log-sum-exp of its scores. From the outputs o and
log-sum-exps l of parts A and B:

    o = o_A + sigmoid(l_B - l_A) * (o_B - o_A)        l = log(exp(l_A) + exp(l_B))

This is what lets a prefix that many sequences share be attended to once, and (split-KV) a long
context by many programs at a time. Knows no cache and no blocks. The easy thing to get wrong is
precision: outputs may be half precision, log-sum-exps never, or parts of a long context are
weighted wrongly.

Source: FlashDecoding (Dao et al., 2023); vLLM `merge_attn_states`.
"""

import torch

Rows = slice | torch.Tensor
"""Rows of the flat batch: a slice where they are neighbours (no copy), else indices."""


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    is_causal: bool = False,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Grouped-query attention and the log-sum-exp of its scores, which lets two results be merged.

    query: [batch, num_heads, num_queries, head_size]; key, value: [batch, num_kv_heads, num_tokens,
    head_size]
    is_causal: query i sees tokens 0 to i; mask: added to the scores, [batch, 1, 1, num_tokens]
    Returns [batch, num_heads, num_queries, head_size] and, in float32, [batch, num_heads,
    num_queries].
    """
    if query.device.type == "cpu":
        # What F.scaled_dot_product_attention calls on a CPU; it computes the log-sum-exp and throws
        # it away.
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, is_causal=is_causal, attn_mask=mask, scale=scale
        )
    return attend_in_steps(query, key, value, scale, is_causal, mask)


def attend_in_steps(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    is_causal: bool = False,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attend` step by step, in float32: for devices where no fused operation returns the
    log-sum-exp.
    """
    batch, num_heads, num_queries, head_size = query.shape
    num_kv_heads, num_tokens = key.shape[1], key.shape[2]
    # The query heads of a group share a key head: give them a dimension to be broadcast over.
    grouped = query.reshape(batch, num_kv_heads, -1, num_queries, head_size).float()
    # [batch, num_kv_heads, group, num_queries, num_tokens]
    scores = grouped @ key.unsqueeze(2).mT.float() * scale
    if is_causal:
        future = torch.ones(num_queries, num_tokens, dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    if mask is not None:
        scores = scores + mask.unsqueeze(1).float()
    log_sum_exp = scores.logsumexp(dim=-1)
    output = (scores - log_sum_exp.unsqueeze(-1)).exp() @ value.unsqueeze(2).float()
    shape = (batch, num_heads, num_queries)
    return output.reshape(*shape, head_size).to(query.dtype), log_sum_exp.reshape(shape)


def merge(
    output: torch.Tensor,
    log_sum_exp: torch.Tensor,
    rows: Rows,
    other: torch.Tensor,
    other_lse: torch.Tensor,
) -> None:
    """Extend the softmax of these rows by another part of their context.

    output: [num_tokens, num_heads, head_size], log_sum_exp: [num_tokens, num_heads], both changed
    in place
    """
    mine = log_sum_exp[rows]
    share = torch.sigmoid(other_lse - mine).unsqueeze(-1)  # of the other part
    # In float32, and rounded once: a share in half precision would be off by more than the outputs
    # are.
    output[rows] = torch.lerp(output[rows].float(), other.float(), share).to(output.dtype)
    log_sum_exp[rows] = torch.logaddexp(mine, other_lse)
