"""Names for the content of full blocks: a chain of SHA-256 digests.

A block's keys and values depend on its own tokens and on all tokens before them, so its name must
too: `hash(parent's hash, own tokens, extra keys)`. Two blocks with the same name hold the same
keys and values and may be shared.

The easy thing to get wrong is an encoding in which two different inputs look alike. Token ids are
fixed-width, so token boundaries cannot shift, and extra keys carry a tag and a length. The digest is
the full SHA-256: a shorter or weaker hash lets one user's prompt be crafted to hit another's blocks.

Source: vLLM `vllm/v1/core/kv_cache_utils.py` (`hash_block_tokens`); CVE-2025-25183 for the why.
"""

from array import array
from collections.abc import Sequence as Seq
from hashlib import sha256

BlockHash = bytes
"""32 bytes."""

ROOT = b"\x00" * 32
"""Stands for "nothing before": the parent of every first block."""


def hash_block_tokens(
    parent: BlockHash | None, token_ids: Seq[int], extra_keys: Seq[tuple[str, str]] = ()
) -> BlockHash:
    """The name of one full block.

    `token_ids`: the block's own tokens, exactly `block_size` of them, each from 0 to 2**32 - 1.
    `extra_keys`: what else the content depends on, as (kind, value), in a fixed order of kinds.
    """
    digest = sha256(parent or ROOT)
    digest.update(array("I", token_ids).tobytes())
    for kind, value in extra_keys:
        raw = value.encode("utf-8", "surrogatepass")  # whatever text a caller sends, also half of a surrogate pair
        digest.update(f"|{kind}:{len(raw)}:".encode() + raw)
    return digest.digest()


def short_hash(block_hash: BlockHash) -> str:
    """The first 16 hex digits: what events and screens show. Lookups always use the full digest."""
    return block_hash.hex()[:16]
