"""What the blocks of the pool are used for at one moment: a count of a fold's blocks.

The easy thing to get wrong is "free". A freed block may still hold what the next prompt begins with, and to see
these apart from the empty ones is half of understanding a prefix cache.
"""

from typing import NamedTuple

from minivllm.events.fold import Fold


class PoolUse(NamedTuple):
    """How many blocks are in which condition."""

    used: int
    cached: int
    """Free, but still a hit for a prompt that begins like it."""
    empty: int


def pool_use(fold: Fold) -> PoolUse:
    """O(free blocks)."""
    blocks, num_free = fold.blocks, len(fold.free_queue)
    cached = sum(blocks[block_id].hash is not None for block_id in fold.free_queue)
    return PoolUse(len(blocks) - num_free, cached, num_free - cached)
