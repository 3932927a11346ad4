"""Events of the second memory (`minivllm.kv_transfer`): blocks that leave the pool and come back."""

from typing import ClassVar, Literal

from minivllm.events.types.envelope import Event


class KVStore(Event, tag="kv.store"):
    """A cached block is copied to the host, where a prompt can hit it after its eviction.

    The bytes are copied before this step writes any block.
    """

    block_id: int
    host_block: int
    """The host's block that gets the copy. It joins the host's queue of reuse at the end."""
    hash: str
    """As in `block.hashed`."""
    parent: str | None
    """As in `block.hashed`."""
    rule: ClassVar[str] = "minivllm.kv_transfer.host_tier:SimpleCPUOffloadConnector._store"


class KVLost(Event, tag="kv.lost"):
    """A block of the host lost its copy: its place is needed, or its content is invalid."""

    host_block: int
    """The host's block."""
    hash: str
    """The hash that can no longer be hit in the host's memory."""
    why: Literal["reused", "failed"]
    """`failed`: the request that wrote the block has failed, so its values may be NaN."""
    rule: ClassVar[str] = "minivllm.kv_transfer.host_tier:SimpleCPUOffloadConnector._drop"


class KVLoad(Event, tag="kv.load"):
    """A waiting sequence begins to load blocks. It owns them and a batch slot, and waits.

    It has blocks for all of its tokens: with fewer, loads could wait for each other for ever.
    """

    seq_id: str
    slot: int
    block_ids: list[int]
    """The blocks that are filled, in the order of the block table. They have no hash yet."""
    host_blocks: list[int]
    """The host's blocks that are read, in the same order. None is reused during the load. Another
    engine's blocks have no ids here: they are asked for by their hashes.
    """
    source: str = "host"
    """Where the blocks come from: `host`, or the address of the engine that has computed them."""
    rule: ClassVar[str] = "minivllm.kv_transfer.connector:KVConnector.update_state_after_alloc"


class KVLoaded(Event, tag="kv.loaded"):
    """A load has ended. The sequence joins the batch as soon as the budget has a token for it."""

    seq_id: str
    num_tokens: int
    """Tokens that need not be computed; 0 if nothing came, or if the sequence is aborted."""
    rule: ClassVar[str] = "minivllm.kv_transfer.connector:KVConnector._end_load"


class KVLease(Event, tag="kv.lease"):
    """The blocks of a computed prompt are kept for another engine, which will decode it."""

    lease: int
    """Number of the lease, from 0."""
    seq_id: str
    block_ids: list[int]
    """Each has one more owner until `kv.released`."""
    until: float
    """When the lease ends, on the engine's clock, if nobody has read the blocks."""
    rule: ClassVar[str] = "minivllm.kv_transfer.producer:KVProducer.request_finished"


class KVReleased(Event, tag="kv.released"):
    """A lease has ended: its blocks may be reused, unless they have other owners."""

    lease: int
    """As in `kv.lease`."""
    why: Literal["read", "expired", "failed"]
    """`failed`: a request that shared a block has failed, so its values may be NaN."""
    rule: ClassVar[str] = "minivllm.kv_transfer.producer:KVProducer._end_lease"
