"""Block arithmetic: the name of a full block's content, and the slot of a token.

A block's name is a SHA-256 digest, chained: `hash(parent's name, own tokens, extra keys)`. Keys and
values depend on a block's own tokens and on all tokens before them, so two blocks with the same
name hold the same keys and values and may be shared.

A token at position p of a sequence is stored in slot
`block_table[p // block_size] * block_size + p % block_size`, in prefill and decode alike.

Source: vLLM `vllm/v1/core/kv_cache_utils.py` (`hash_block_tokens`); CVE-2025-25183 for the why.
"""

from array import array
from collections.abc import Sequence as Seq
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a request's blocks carry names from here
    from minivllm.core.request import Sequence

BlockHash = bytes
"""32 bytes."""

ROOT = b"\x00" * 32
"""Stands for "nothing before": the parent of every first block."""

NOT_WRITTEN = -1
"""vLLM's PAD_SLOT_ID: the KV write skips such a token."""


def hash_block_tokens(
    parent: BlockHash | None, token_ids: Seq[int], extra_keys: Seq[tuple[str, str]] = ()
) -> BlockHash:
    """The name of one full block.

    `token_ids`: the block's own tokens, exactly `block_size` of them, each from 0 to 2**32 - 1.
    `extra_keys`: what else the content depends on, as (kind, value), in a fixed order of kinds.

    Two different inputs must never be encoded alike. Token ids have a fixed width, so token
    boundaries cannot shift, and extra keys carry their kind and length. The digest is the full
    SHA-256: with a shorter or weaker hash, one user's prompt could be crafted to hit another's
    blocks.
    """
    digest = sha256(parent or ROOT)
    digest.update(array("I", token_ids).tobytes())
    for kind, value in extra_keys:
        # whatever text a caller sends, also half of a surrogate pair
        raw = value.encode("utf-8", "surrogatepass")
        digest.update(f"|{kind}:{len(raw)}:".encode() + raw)
    return digest.digest()


def short_hash(block_hash: BlockHash) -> str:
    """The first 16 hex digits: what events and screens show. Lookups always use the full digest."""
    return block_hash.hex()[:16]


def slot_mapping(sequence: "Sequence", start: int, num_tokens: int, block_size: int) -> list[int]:
    """The slots that tokens [start, start + num_tokens) are written to.

    A token whose keys and values the prefix cache already holds has slot `NOT_WRITTEN`: it goes
    through the model for its query alone. This is the slow reference implementation, for invariants
    and tests: the model runner computes the same in numpy for a whole batch.
    """
    return [
        (
            NOT_WRITTEN
            if position < sequence.num_cached_tokens
            else sequence.block_table[position // block_size].block_id * block_size
            + position % block_size
        )
        for position in range(start, start + num_tokens)
    ]
