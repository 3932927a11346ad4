"""Block arithmetic: the hash of a full block, and the slot of a token.

A block's hash is a chained SHA-256 digest: `hash(parent's hash, own tokens, extra keys)`. The keys
and values of a block depend on its tokens and on all earlier tokens. So blocks with the same hash
hold the same keys and values, and one block can serve several sequences.

The slot of a token, with blocks of 4 tokens:

    position      0  1  2  3 | 4  5
    block table   [   7      |   2  ]
    slot         28 29 30 31 | 8  9

Source: vLLM `vllm/v1/core/kv_cache_utils.py` (`hash_block_tokens`).
"""

from array import array
from collections.abc import Sequence as Seq
from hashlib import sha256

from minivllm.core.block_pool import BlockHash
from minivllm.core.request import Sequence

ROOT = b"\x00" * 32
"""The parent hash of every first block."""

NOT_WRITTEN = -1
"""Slot of a token whose keys and values are not written. vLLM calls the value PAD_SLOT_ID."""


def hash_block_tokens(
    parent: BlockHash | None, token_ids: Seq[int], extra_keys: Seq[tuple[str, str]] = ()
) -> BlockHash:
    """Return the hash of one full block.

    token_ids:  the block's own `block_size` tokens, each from 0 to 2**32 - 1.
    extra_keys: what else the content depends on, as (kind, value), in a fixed order of kinds.

    Different inputs never give the same bytes: token ids have a fixed width, and each extra key
    starts with its kind and length. With a weaker hash than the full SHA-256, an attacker could
    craft a prompt that hits another user's blocks (CVE-2025-25183).
    """
    digest = sha256(parent or ROOT)
    digest.update(array("I", token_ids).tobytes())
    for kind, value in extra_keys:
        # Callers may send any text, even half of a surrogate pair.
        raw = value.encode("utf-8", "surrogatepass")
        digest.update(f"|{kind}:{len(raw)}:".encode() + raw)
    return digest.digest()


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    """Return the slots that tokens [start, start + num_tokens) are written to.

    A token that is already in the prefix cache gets slot `NOT_WRITTEN`: only its query is needed.
    This is the slow reference implementation; the model runner does the same in numpy.
    """
    # Position 5 with blocks of 4: entry 5 // 4 = 1 of the table is block 2, slot 2 * 4 + 5 % 4 = 9.
    return [
        (
            NOT_WRITTEN
            if position < sequence.num_cached_tokens
            else sequence.block_table[position // block_size].block_id * block_size
            + position % block_size
        )
        for position in range(start, start + num_tokens)
    ]
