"""Events of KV cache blocks: allocation, sharing, copying, hashing and reuse."""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event

MissReason = Literal[
    "caching_off", "prompt_shorter_than_a_block", "never_seen", "evicted", "prompt_logprobs"
]


class BlockAllocated(Event, tag="block.allocated"):
    """A block left the free queue and became entry `logical` of a sequence's block table.

    Paged memory always takes the head of the queue.
    """

    block_id: int
    seq_id: str
    logical: int
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._append_new_block"


class BlockHashed(Event, tag="block.hashed"):
    """A full block was registered in the prefix cache under its hash."""

    block_id: int
    hash: str
    """First 16 hexadecimal digits of the hash of its tokens and all tokens before them."""
    parent: str | None
    """Hash of the block before it in the sequence; None for the first block."""
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool.cache_block"


class BlockHit(Event, tag="block.hit"):
    """A cached block was found for a sequence and became entry `logical` of its block table."""

    block_id: int
    seq_id: str
    logical: int
    was_free: bool
    """Whether the block left the free queue; if not, it is shared now."""
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.allocate_slots"


class BlockCopied(Event, tag="block.copied"):
    """Copy-on-write: before it wrote to the shared block `src`, a sequence got its own copy `dst`.

    `dst` comes from the free queue and replaces `src` as entry `logical` of the block table. `src`
    loses one owner and keeps at least one.
    """

    src: int
    """The shared block."""
    dst: int
    """The copy, which only this sequence owns."""
    seq_id: str
    logical: int
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._copy_on_write"


class BlockMissed(Event, tag="block.missed"):
    """A prefix lookup found no block for entry `logical` of the block table, and why."""

    seq_id: str
    logical: int
    why: MissReason
    """`prompt_logprobs`: they need the whole prompt computed, so nothing was looked up."""
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.explain_miss"


class BlockReleased(Event, tag="block.released"):
    """A sequence released the last entry of its block table; the block has one owner fewer."""

    block_id: int
    seq_id: str
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._let_go"


class BlockFreed(Event, tag="block.freed"):
    """A block without owners joined the free queue: at the tail with a hash, else at the head."""

    block_id: int
    position: Literal["head", "tail"]
    """The block at the head is reused next."""
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool._put_back"


class BlockEvicted(Event, tag="block.evicted"):
    """A cached block lost its hash, because it is reused or because its owner failed."""

    block_id: int
    hash: str
    """The hash that can no longer be hit."""
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool.evict"
