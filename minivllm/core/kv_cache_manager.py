"""`KVCacheManager`: gives sequences the blocks that their next tokens need.

When there are too few free blocks, the manager changes nothing and returns the shortage. The
scheduler then decides which sequence waits or is preempted.

The block table of a sequence that is admitted with a prefix hit:

    | <-- hit blocks: touched, shared --> | <-- new blocks --> |
    ^ 0                num_cached_tokens, ^ <-- chunk --> later chunks ...
                     num_computed_tokens

If the cache holds the *whole* prompt, the last token still goes through the model, because the
output there predicts the next token. But its keys and values are not written: the block has them.

    | <-------- hit blocks: touched, shared ---------> |
    ^ 0          num_computed_tokens -> ^ <-- chunk -> ^ num_cached_tokens = num_tokens

A fork shares *every* block of its parent, including a partial last block. A sequence that is about
to write into a shared block first copies the block (copy-on-write). The last owner needs no copy
and writes in place, so `n` samples make at most `n - 1` copies.

Source: vLLM `vllm/v1/core/kv_cache_manager.py`.
"""

from collections.abc import Iterable
from typing import NamedTuple

from minivllm.core.block_math import hash_block_tokens
from minivllm.core.block_pool import BlockPool, KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy
from minivllm.events import types as ev
from minivllm.events.bus import EventBus


class ComputedBlocks(NamedTuple):
    """The longest prefix of a sequence that the cache holds."""

    blocks: list[KVCacheBlock]
    num_cached_tokens: int
    """Tokens in these blocks."""
    num_computed_tokens: int
    """Where computing starts: after the cached tokens, or at the last token if all are cached."""


NO_COMPUTED_BLOCKS = ComputedBlocks([], 0, 0)


class Shortage(NamedTuple):
    """A failed allocation: how many blocks it needs, and how many are free."""

    need: int
    free: int
    reason: ev.DeferReason = "no_blocks"


class KVCacheManager:
    """The scheduler's interface to KV cache memory."""

    def __init__(
        self, pool: BlockPool, block_size: int, enable_prefix_caching: bool, bus: EventBus
    ) -> None:
        self.pool = pool
        self.block_size = block_size
        self.enable_prefix_caching = enable_prefix_caching
        self._bus = bus
        self.num_copied_blocks = 0
        # By destination block. If the block's owner is preempted in the same step, the next owner
        # may need another copy into the block, which then replaces the first copy.
        self._copies: dict[int, BlockCopy] = {}

    def take_copies(self) -> list[BlockCopy]:
        """Return the block copies decided since the last call. All can run at once."""
        copies, self._copies = list(self._copies.values()), {}
        return copies

    def num_blocks_for(self, num_tokens: int) -> int:
        """Return the number of blocks for `num_tokens` tokens, rounded up."""
        return -(-num_tokens // self.block_size)

    def table_length(self, num_tokens: int) -> int:
        """Return the length of a table for `num_tokens` tokens; a contiguous one is always whole."""
        return self.num_blocks_for(num_tokens)

    # ---- prefix lookup ----

    def get_computed_blocks(self, sequence: Sequence) -> ComputedBlocks:
        """Look up the longest cached prefix of `sequence`. Changes no reference count."""
        if not self.enable_prefix_caching:
            return NO_COMPUTED_BLOCKS
        self._extend_hashes(sequence, sequence.num_tokens)
        # Prompt log-probabilities need every prompt token computed, so use no hits. Other sequences
        # can still hit the blocks that `sequence` fills.
        if sequence.wants_prompt_logprobs:
            return NO_COMPUTED_BLOCKS
        return self._longest_cached_prefix(sequence)

    def _longest_cached_prefix(self, sequence: Sequence) -> ComputedBlocks:
        """Follow the sequence's hash chain up to the first block that is not cached."""
        hits: list[KVCacheBlock] = []
        for block_hash in sequence.block_hashes:
            block = self.pool.get_cached_block(block_hash)
            if block is None:
                break
            hits.append(block)
        num_cached = len(hits) * self.block_size
        return ComputedBlocks(hits, num_cached, min(num_cached, sequence.num_tokens - 1))

    def explain_miss(self, sequence: Sequence, computed: ComputedBlocks) -> None:
        """If the lookup ended before the last full block, emit the reason."""
        why: ev.MissReason
        if not self.enable_prefix_caching:
            why = "caching_off"
        elif sequence.wants_prompt_logprobs:
            why = "prompt_logprobs"
        elif not sequence.block_hashes:
            why = "prompt_shorter_than_a_block"
        elif len(computed.blocks) == len(sequence.block_hashes):
            return
        else:
            first_missing = sequence.block_hashes[len(computed.blocks)]
            why = "evicted" if self.pool.was_evicted(first_missing) else "never_seen"
        self._bus.emit(ev.BlockMissed, sequence.seq_id, len(computed.blocks), why)

    # ---- allocation ----

    def shortage_for(
        self, sequence: Sequence, num_tokens: int, computed: ComputedBlocks, num_copies: int = 0
    ) -> Shortage | None:
        """Return the shortage if a table for `num_tokens` tokens does not fit now, else None.

        num_copies: how many blocks are needed for copies, besides the table's.
        """
        num_new = self.num_blocks_for(num_tokens) - len(sequence.block_table) - len(computed.blocks)
        # The table of a draft model may be longer than its tokens.
        num_new = max(num_new, 0)
        # A hit on a free block uses up a free block, just as a new block does.
        num_free_hits = sum(block.ref_cnt == 0 for block in computed.blocks)
        need = num_new + num_free_hits + num_copies
        free = self.pool.num_free_blocks
        return Shortage(need, free) if need > free else None

    def allocate_slots(
        self, sequence: Sequence, num_tokens: int, computed: ComputedBlocks = NO_COMPUTED_BLOCKS
    ) -> Shortage | None:
        """Extend the block table until it holds the first `num_tokens` tokens of `sequence`.

        "Slots" are vLLM's word for the places of tokens in blocks; `Sequence.slot` is a batch row.

        computed: prefix hits to put at the start of the table, which must be empty.

        Returns None on success. On a shortage, returns it and changes nothing.
        """
        must_copy = self.writes_to_shared_block(sequence)
        if shortage := self.shortage_for(sequence, num_tokens, computed, int(must_copy)):
            return shortage
        table = sequence.block_table
        if must_copy:
            self._copy_on_write(sequence)
        # Touch the hits first: this takes them off the free queue, so they cannot be popped below.
        for block in computed.blocks:
            was_free = self.pool.touch(block)
            if self._bus.active:
                self._bus.emit(ev.BlockHit, block.block_id, sequence.seq_id, len(table), was_free)
            table.append(block)
        self._extend_table(sequence, num_tokens)
        return None

    def _extend_table(self, sequence: Sequence, num_tokens: int) -> None:
        """Append new blocks until the table holds `num_tokens` tokens.

        The caller has checked that enough blocks are free.
        """
        for _ in range(len(sequence.block_table), self.num_blocks_for(num_tokens)):
            self._append_new_block(sequence)

    def _append_new_block(self, sequence: Sequence) -> None:
        block = self.pool.pop_free_block()
        table = sequence.block_table
        if self._bus.active:
            self._bus.emit(ev.BlockAllocated, block.block_id, sequence.seq_id, len(table))
        table.append(block)

    def writes_to_shared_block(self, sequence: Sequence) -> bool:
        """Whether the next write of `sequence`, after all that is cached, is to a shared block."""
        index = max(sequence.num_computed_tokens, sequence.num_cached_tokens) // self.block_size
        return index < len(sequence.block_table) and sequence.block_table[index].ref_cnt > 1

    def _copy_on_write(self, sequence: Sequence) -> None:
        """Replace the shared last block of `sequence` by a copy. Needs one free block."""
        # Only a partial block is written while it is shared, and only the last block is partial.
        logical = len(sequence.block_table) - 1
        shared = sequence.block_table[logical]
        own = self.pool.pop_free_block()
        self._copies[own.block_id] = BlockCopy(shared.block_id, own.block_id)
        sequence.block_table[logical] = own
        self.num_copied_blocks += 1
        if self._bus.active:
            self._bus.emit(ev.BlockCopied, shared.block_id, own.block_id, sequence.seq_id, logical)
        self.pool.release(shared)

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Let `child` share every block of `parent`. This copies nothing."""
        for block in parent.block_table:
            self.pool.touch(block)
            child.block_table.append(block)
        child.block_hashes = list(parent.block_hashes)

    def cache_full_blocks(self, sequence: Sequence, num_tokens: int) -> None:
        """Register the hashes of the blocks that the first `num_tokens` tokens fill.

        This is before the model runs: a later sequence of the same step can already share them,
        because each layer writes all keys and values before it reads any.
        """
        if not self.enable_prefix_caching:
            return
        table = sequence.block_table
        first = num_full = num_tokens // self.block_size
        while first and table[first - 1].block_hash is None:  # back to the last one that has a hash
            first -= 1
        if first < num_full:  # rarely: a block fills up every `block_size` tokens
            self._extend_hashes(sequence, num_tokens)
            hashes = sequence.block_hashes
            for i in range(first, num_full):
                self.pool.cache_block(table[i], hashes[i], hashes[i - 1] if i else None)

    def evict_unused(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Evict each of `blocks` that has no owner, because it may hold NaN or stale values."""
        for block in blocks:
            if block.ref_cnt == 0:
                self.pool.evict(block)

    def free(self, sequence: Sequence) -> None:
        """Release all blocks of `sequence`, from the tail of its table to the head."""
        self._let_go(sequence, sequence.block_table[::-1])
        sequence.block_table.clear()

    def shrink(self, sequence: Sequence, num_tokens: int) -> None:
        """Release the blocks that are not needed for the first `num_tokens` tokens. They have no hash:
        rejected drafts were written there, or nothing yet (after a load).
        """
        needed = self.table_length(num_tokens)
        self._let_go(sequence, sequence.block_table[needed:][::-1])
        del sequence.block_table[needed:]

    def _let_go(self, sequence: Sequence, blocks: list[KVCacheBlock]) -> None:
        """Release `blocks`, the end of the sequence's table, the last block first."""
        if self._bus.active:
            for block in blocks:
                self._bus.emit(ev.BlockReleased, block.block_id, sequence.seq_id)
        self.pool.free_blocks(blocks)

    def _extend_hashes(self, sequence: Sequence, num_tokens: int) -> None:
        """Extend the hash chain to all full blocks of the first `num_tokens` tokens."""
        hashes, size = sequence.block_hashes, self.block_size
        while (len(hashes) + 1) * size <= num_tokens:
            start = len(hashes) * size
            parent = hashes[-1] if hashes else None
            # The salt is part of the first block's hash. Through the chain, it changes all others.
            extra_keys = () if hashes else sequence.request.extra_keys
            hashes.append(
                hash_block_tokens(parent, sequence.token_ids[start : start + size], extra_keys)
            )
