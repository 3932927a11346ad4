"""Paged attention written for the eye: one loop a token, one query at a time.

This is the slow twin of every attention backend and the oracle of their tests. It works in the dtype of
its inputs, float64 included, and reads exactly the slots that it should, one by one: a test can fill
all others with NaN.

The layout here is the one that is easiest to think of, `[num_blocks, block_size, num_kv_heads, head_size]`.
A backend may keep its cache in any other.

Source: "Efficient Memory Management for Large Language Model Serving with PagedAttention" (Kwon et al., 2023), section 4.1.
"""

import torch


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Write each token's key and value to its slot; a token whose slot is -1 is not written.

    key, value: [num_tokens, num_kv_heads, head_size]
    key_cache, value_cache: [num_blocks, block_size, num_kv_heads, head_size], changed in place
    slot_mapping: [num_tokens], `block_id * block_size + offset`
    """
    block_size = key_cache.shape[1]
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot < 0:
            continue
        block_id, offset = divmod(slot, block_size)
        key_cache[block_id, offset] = key[token]
        value_cache[block_id, offset] = value[token]


def paged_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_start_loc: list[int],
    seq_lens: list[int],
    scale: float,
) -> torch.Tensor:
    """Causal attention of a ragged batch over a paged cache that already holds this step's keys and values.

    query: [num_tokens, num_heads, head_size], the tokens of sequence i in rows
        [query_start_loc[i], query_start_loc[i + 1]); they are the last ones of its seq_lens[i] tokens
    block_tables: [num_seqs, max_blocks], entries after a sequence's last block are never read
    scale: what the scores are multiplied with, 1 / sqrt(head_size) in every model here
    Returns [num_tokens, num_heads, head_size].
    """
    num_heads, num_kv_heads = query.shape[1], key_cache.shape[2]
    output = torch.empty_like(query)
    for i, seq_len in enumerate(seq_lens):
        first, end = query_start_loc[i], query_start_loc[i + 1]
        keys = _gather(key_cache, block_tables[i], seq_len)  # [seq_len, num_kv_heads, head_size]
        values = _gather(value_cache, block_tables[i], seq_len)
        for token in range(first, end):
            num_visible = seq_len - (end - token) + 1  # the token itself and all before it
            for head in range(num_heads):
                kv_head = head * num_kv_heads // num_heads  # grouped-query attention: neighbours share
                scores = keys[:num_visible, kv_head] @ query[token, head] * scale
                output[token, head] = torch.softmax(scores, dim=0) @ values[:num_visible, kv_head]
    return output


def _gather(cache: torch.Tensor, block_table: torch.Tensor, seq_len: int) -> torch.Tensor:
    """A sequence's first `seq_len` entries in the order of their positions: [seq_len, num_kv_heads, head_size]."""
    block_size = cache.shape[1]
    slots = [int(block_table[p // block_size]) * block_size + p % block_size for p in range(seq_len)]
    return cache.flatten(0, 1)[slots]
