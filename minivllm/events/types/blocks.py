"""Events of KV cache blocks: who owns them, what they are called, and when they are copied or
reused.
"""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event

MissReason = Literal[
    "caching_off", "prompt_shorter_than_a_block", "never_seen", "evicted", "prompt_logprobs"
]


class BlockAllocated(Event, tag="block.allocated"):
    """A block left the free queue (its head, if memory is paged) and became entry `logical` of a
    sequence's block table.
    """

    block_id: int
    seq_id: str
    logical: int
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._append_new_block"


class BlockHashed(Event, tag="block.hashed"):
    """A full block got its name in the prefix cache. `parent` is the hash before it, None at a
    root.
    """

    block_id: int
    hash: str
    """Short form of the hash of its tokens and of all before them, as hexadecimal digits."""
    parent: str | None
    """The name of the block before it in its sequence."""
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool.cache_block"


class BlockHit(Event, tag="block.hit"):
    """A cached block became entry `logical` of one more block table; free before if `was_free`."""

    block_id: int
    seq_id: str
    logical: int
    was_free: bool
    """It had no owner and left the free queue; else it is shared from now on."""
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.allocate_slots"


class BlockCopied(Event, tag="block.copied"):
    """Copy-on-write: about to write to a shared block, a sequence got `dst` instead, off the free
    queue.

    Entry `logical` of its block table now is `dst`; `src` has one owner fewer and keeps at least
    one.
    """

    src: int
    """The shared block."""
    dst: int
    """The copy, which the sequence alone owns."""
    seq_id: str
    logical: int
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._copy_on_write"


class BlockMissed(Event, tag="block.missed"):
    """A prefix lookup ended at entry `logical` of the table to be, and why."""

    seq_id: str
    logical: int
    why: MissReason
    """`prompt_logprobs`: they need the whole prompt computed, so nothing was looked up."""
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.explain_miss"


class BlockReleased(Event, tag="block.released"):
    """A sequence let go of the last entry of its block table: that block's reference count fell by
    one.
    """

    block_id: int
    seq_id: str
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._let_go"


class BlockFreed(Event, tag="block.freed"):
    """A block with no owner joined the free queue: at the `tail` with its hash, at the `head`
    without.
    """

    block_id: int
    position: Literal["head", "tail"]
    """The head is handed out next."""
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool._put_back"


class BlockEvicted(Event, tag="block.evicted"):
    """A cached block is about to be reused, or its owner failed: its hash leaves the prefix
    cache.
    """

    block_id: int
    hash: str
    """The name that nobody will find any more."""
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool.evict"
