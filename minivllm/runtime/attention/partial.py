"""Attention over a part of a context, and merging the results of two parts.

Softmax attention is a weighted mean, so it can be computed part by part. Each part also returns the
log of its total weight, which is the log-sum-exp of its scores: the weight with which its output
counts in the whole.

So attention can read a shared prefix once for many sequences, and many programs can share a long
context (split-KV). Log-sum-exps must be float32, or the parts of a long context get wrong weights.

Source: FlashDecoding (Dao et al., 2023); vLLM `merge_attn_states`.
"""

import torch

Rows = slice | torch.Tensor
"""Rows of the flat batch: a slice (which needs no copy) if they are neighbours, else indices."""


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    is_causal: bool = False,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute grouped-query attention and the log-sum-exp of its scores, for `merge`.

    query: [batch, num_heads, num_queries, head_size]
    key, value: [batch, num_kv_heads, num_tokens, head_size]
    is_causal: query i sees tokens 0 to i
    mask: [batch, 1, 1, num_tokens], added to the scores

    Returns the output, [batch, num_heads, num_queries, head_size], and the log-sum-exp, [batch,
    num_heads, num_queries] float32.
    """
    if query.device.type == "cpu":
        # F.scaled_dot_product_attention calls this operation, but discards the log-sum-exp.
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
    """Compute `attend` step by step in float32, for devices without a fused operation for it.

    The shapes are those of `attend`.
    """
    batch, num_heads, num_queries, head_size = query.shape
    num_kv_heads, num_tokens = key.shape[1], key.shape[2]
    # The query heads of a group share a key head: add a dimension for the group, to broadcast the
    # keys over it.
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
    """Merge another part of the context into the attention of these rows, in place.

    output: [num_tokens, num_heads, head_size]; log_sum_exp: [num_tokens, num_heads]
    other: [num_rows, num_heads, head_size]; other_lse: [num_rows, num_heads]
    """
    # o = o_A + share * (o_B - o_A): exp(l_B) / (exp(l_A) + exp(l_B)) is the sigmoid of l_B - l_A,
    # and only this difference is small enough for exp.
    mine = log_sum_exp[rows]
    share = torch.sigmoid(other_lse - mine).unsqueeze(-1)  # of the other part
    # Compute in float32 and round once: rounding the share would add a larger error.
    output[rows] = torch.lerp(output[rows].float(), other.float(), share).to(output.dtype)
    log_sum_exp[rows] = torch.logaddexp(mine, other_lse)
