"""Events of KV cache blocks: allocation, sharing, copying, hashing and reuse."""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event

MissReason = Literal[
    "caching_off", "prompt_shorter_than_a_block", "never_seen", "evicted", "prompt_logprobs",
    "last_block_not_looked_up",
]  # fmt: skip


class BlockAllocated(Event, tag="block.allocated"):
    """A block left the free queue and became entry `logical` of a sequence's block table.

    With paged memory, this is always the block at the head of the queue.
    """

    block_id: int
    seq_id: str
    logical: int
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._append_new_block"


class BlockHashed(Event, tag="block.hashed"):
    """A full block was registered in the prefix cache under its hash."""

    block_id: int
    hash: str
    """First 16 hexadecimal digits of the hash of the block's tokens and all earlier tokens."""
    parent: str | None
    """Hash of the previous block in the sequence; None for the first block."""
    seq_id: str | None = None
    """The sequence that filled the block; None for the sequence that was scheduled last."""
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool.cache_block"


class BlockHit(Event, tag="block.hit"):
    """A cached block was found and became entry `logical` of a sequence's block table."""

    block_id: int
    seq_id: str
    logical: int
    was_free: bool
    """True: the block left the free queue. False: the block had an owner and is now shared."""
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.allocate_slots"


class BlockCopied(Event, tag="block.copied"):
    """Copy-on-write: a sequence got its own copy `dst` before writing to the shared block `src`.

    `dst` comes from the free queue and replaces `src` as entry `logical` of the block table. `src`
    loses one owner and keeps at least one.
    """

    src: int
    """The shared block."""
    dst: int
    """The copy, owned only by the sequence `seq_id`."""
    seq_id: str
    logical: int
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._copy_on_write"


class BlockMissed(Event, tag="block.missed"):
    """A prefix lookup found no block for entry `logical` of the block table."""

    seq_id: str
    logical: int
    why: MissReason
    """`prompt_logprobs`: the whole prompt must be computed, so nothing was looked up.
    `last_block_not_looked_up`: vLLM computes at least one token, so it never hits a last full block.
    """
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager.explain_miss"


class BlockReleased(Event, tag="block.released"):
    """A sequence released the last block of its block table; the block lost one owner."""

    block_id: int
    seq_id: str
    rule: ClassVar[str] = "minivllm.core.kv_cache_manager:KVCacheManager._let_go"


class BlockFreed(Event, tag="block.freed"):
    """A block lost its last owner and joined the free queue.

    A block with a hash joins at the tail, a block without a hash at the head.
    """

    block_id: int
    position: Literal["head", "tail"]
    """The block at the head is reused next."""
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool._put_back"


class BlockEvicted(Event, tag="block.evicted"):
    """A cached block lost its hash, because the block is reused or its owner failed."""

    block_id: int
    hash: str
    """The hash that can no longer be hit."""
    rule: ClassVar[str] = "minivllm.core.block_pool:BlockPool.evict"
