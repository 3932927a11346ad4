"""Paged attention in its simplest form: one token and one query head at a time.

Tests compare every attention backend with this reference implementation. It works in the dtype of
its inputs, float64 included, and reads only the slots that it needs, so a test can fill all other
slots with NaN. Backends can choose another cache layout.

Source: "Efficient Memory Management for Large Language Model Serving with PagedAttention" (Kwon et
al., 2023), section 4.1.
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
    window: int = 0,
) -> torch.Tensor:
    """Causal attention of a ragged batch over a paged cache, which has this step's keys and values.

    query: [num_tokens, num_heads, head_size]; rows [query_start_loc[i], query_start_loc[i + 1]) are
        the last tokens of sequence i, which has seq_lens[i] tokens
    key_cache, value_cache: [num_blocks, block_size, num_kv_heads, head_size]
    block_tables: [num_seqs, max_blocks]; entries after a sequence's last block are never read
    scale: factor of the scores, 1 / sqrt(head_size) in every model here
    window: how many tokens each token sees, itself included; 0 for all

    Returns [num_tokens, num_heads, head_size].
    """
    num_heads, num_kv_heads = query.shape[1], key_cache.shape[2]
    output = torch.empty_like(query)
    for i, seq_len in enumerate(seq_lens):
        first, end = query_start_loc[i], query_start_loc[i + 1]
        keys = _gather(key_cache, block_tables[i], seq_len)  # [seq_len, num_kv_heads, head_size]
        values = _gather(value_cache, block_tables[i], seq_len)
        for token in range(first, end):
            stop = seq_len - (end - token) + 1  # the token itself and all before it
            visible = slice(max(stop - window, 0) if window else 0, stop)
            for head in range(num_heads):
                # grouped-query attention: neighbouring query heads share a key head
                kv_head = head * num_kv_heads // num_heads
                scores = keys[visible, kv_head] @ query[token, head] * scale
                output[token, head] = torch.softmax(scores, dim=0) @ values[visible, kv_head]
    return output


def decode_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    window: int = 0,
) -> torch.Tensor:
    """Attention of sequences with one query each, as every decode kernel computes it.

    query: [num_seqs, num_heads, head_size]
    key_cache, value_cache: [num_blocks, block_size, num_kv_heads, head_size]
    block_tables: [num_seqs, max_blocks]
    seq_lens: [num_seqs], including the query's token; 0 marks a padded row, which reads nothing

    Returns [num_seqs, num_heads, head_size], zeros for padded rows.
    """
    output = torch.zeros_like(query)
    for i, seq_len in enumerate(seq_lens.tolist()):
        if seq_len > 0:
            rows = slice(i, i + 1)
            output[rows] = paged_attention(
                query[rows], key_cache, value_cache, block_tables[rows], [0, 1], [seq_len], scale,
                window,
            )  # fmt: skip
    return output


def copy_blocks(caches: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> None:
    """Copy block src[i] to block dst[i] in every cache, reading all sources before writing.

    caches: [num_caches, num_blocks, ...], changed in place; src, dst: [num_copies]
    """
    contents = [caches[:, block_id].clone() for block_id in src.tolist()]
    for block_id, content in zip(dst.tolist(), contents, strict=True):
        caches[:, block_id] = content


def attention_mass(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    window: int = 0,
) -> torch.Tensor:
    """Compute the share of the last token's attention on each block of its sequence.

    The shapes are those of `decode_attention`. Returns [num_seqs, num_heads, max_blocks] float32:
    for each block, the sum of its tokens' softmax weights. For each head the blocks sum to 1;
    entries after a sequence's last block are 0.
    """
    num_seqs, num_heads, _ = query.shape
    block_size, num_kv_heads = key_cache.shape[1:3]
    mass = torch.zeros(num_seqs, num_heads, block_tables.shape[1], device=query.device)
    for i, seq_len in enumerate(seq_lens.tolist()):
        keys = _gather(key_cache, block_tables[i], seq_len) if seq_len else None
        first = max(seq_len - window, 0) if window else 0
        for head in range(num_heads if keys is not None else 0):
            weights = torch.softmax(
                keys[first:, head * num_kv_heads // num_heads] @ query[i, head] * scale, dim=0
            )
            for position, weight in enumerate(weights.tolist(), first):
                mass[i, head, position // block_size] += weight
    return mass


def _gather(cache: torch.Tensor, block_table: torch.Tensor, seq_len: int) -> torch.Tensor:
    """Return a sequence's first `seq_len` entries in order: [seq_len, num_kv_heads, head_size]."""
    block_size = cache.shape[1]
    slots = [
        int(block_table[p // block_size]) * block_size + p % block_size for p in range(seq_len)
    ]
    return cache.flatten(0, 1)[slots]
