"""Paged attention written for the eye: one loop a token, one query at a time.

This is the slow twin of every attention backend and the oracle of their tests. It works in the
dtype of its inputs, float64 included, and reads exactly the slots that it should, one by one: a
test can fill all others with NaN.

The layout here is the one that is easiest to think of, `[num_blocks, block_size, num_kv_heads,
head_size]`. A backend may keep its cache in any other.

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
) -> torch.Tensor:
    """Causal attention of a ragged batch over a paged cache that already holds this step's keys and
    values.

    query: [num_tokens, num_heads, head_size], the tokens of sequence i in rows
        [query_start_loc[i], query_start_loc[i + 1]); they are the last ones of its seq_lens[i]
        tokens
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
                # grouped-query attention: neighbours share
                kv_head = head * num_kv_heads // num_heads
                scores = keys[:num_visible, kv_head] @ query[token, head] * scale
                output[token, head] = torch.softmax(scores, dim=0) @ values[:num_visible, kv_head]
    return output


def decode_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Attention of sequences with one query each, the last token: what every rung of the decode
    ladder computes.

    query: [num_seqs, num_heads, head_size]; seq_lens: [num_seqs], the query's own token counted
    key_cache, value_cache: [num_blocks, block_size, num_kv_heads, head_size]; block_tables:
    [num_seqs, max_blocks] A sequence of length 0 is a padded row: nothing of it is read and its
    output is zeros. Returns [num_seqs, num_heads, head_size].
    """
    output = torch.zeros_like(query)
    for i, seq_len in enumerate(seq_lens.tolist()):
        if seq_len > 0:
            rows = slice(i, i + 1)
            output[rows] = paged_attention(
                query[rows], key_cache, value_cache, block_tables[rows], [0, 1], [seq_len], scale
            )
    return output


def copy_blocks(caches: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> None:
    """Copy block src[i] to block dst[i] in every cache; all sources are read before any block is
    written.

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
) -> torch.Tensor:
    """How much of each sequence's last token's attention falls on each of its blocks.

    Shapes as in `decode_attention`. Returns [num_seqs, num_heads, max_blocks] in float32: the
    softmax weights of a block's tokens, summed. A head's row sums to 1; entries after a sequence's
    last block are 0.
    """
    num_seqs, num_heads, _ = query.shape
    block_size, num_kv_heads = key_cache.shape[1:3]
    mass = torch.zeros(num_seqs, num_heads, block_tables.shape[1], device=query.device)
    for i, seq_len in enumerate(seq_lens.tolist()):
        keys = _gather(key_cache, block_tables[i], seq_len) if seq_len else None
        for head in range(num_heads if keys is not None else 0):
            weights = torch.softmax(
                keys[:, head * num_kv_heads // num_heads] @ query[i, head] * scale, dim=0
            )
            for position, weight in enumerate(weights.tolist()):
                mass[i, head, position // block_size] += weight
    return mass


def _gather(cache: torch.Tensor, block_table: torch.Tensor, seq_len: int) -> torch.Tensor:
    """A sequence's first `seq_len` entries in the order of their positions: [seq_len, num_kv_heads,
    head_size].
    """
    block_size = cache.shape[1]
    slots = [
        int(block_table[p // block_size]) * block_size + p % block_size for p in range(seq_len)
    ]
    return cache.flatten(0, 1)[slots]
