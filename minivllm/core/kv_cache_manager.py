"""`KVCacheManager`: gives sequences the blocks that their next tokens need.

It joins two things that know nothing of each other: the pool of blocks, and the sequences with
their block tables. It decides nothing: when blocks are short it says by how many and changes
nothing, and the scheduler decides who waits or is preempted.

How the tokens of a sequence lie in its block table when it is admitted with a prefix hit:

    | <-- hit blocks: touched, shared --> | <-- new blocks --> |
    |  num_cached_tokens                  |  chunk             |  later chunks ...
    ^ 0                                   ^ num_computed_tokens (*)

(*) If the cache holds the *whole* prompt, one token must still go through the model, for its query
predicts the next token. Then num_computed_tokens is one less than num_cached_tokens, and that
token's keys and values are not written again (its slot is -1): nothing is recomputed into a shared
block.

Sequences of one request may share more than full blocks: a fork shares *every* block, the last
partial one too, and copies nothing. The copy is made lazily, by the first sequence that is about to
write into a block with another owner ("copy-on-write"), in this order: allocate, copy, repoint the
table entry, release. The last owner left writes in place. So of n samples n - 1 copy one block
each, and whoever ends before it writes copies none.

The easy things to get wrong: hits on free blocks use up free blocks too, so they count as need;
hits are touched before anything is popped, or the pop may evict them; a failed call changes
nothing.

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
    """Tokens in those blocks."""
    num_computed_tokens: int
    """Where computing starts: the same, but never past the last token but one."""


NO_COMPUTED_BLOCKS = ComputedBlocks([], 0, 0)


class Shortage(NamedTuple):
    """An allocation that failed, in blocks."""

    need: int
    free: int
    reason: ev.DeferReason = "no_blocks"


class KVCacheManager:
    """The scheduler's only way to memory."""

    def __init__(
        self, pool: BlockPool, block_size: int, enable_prefix_caching: bool, bus: EventBus
    ) -> None:
        self.pool = pool
        self.block_size = block_size
        self.enable_prefix_caching = enable_prefix_caching
        self._bus = bus
        self.num_copied_blocks = 0
        # By destination: a copy whose owner is preempted in the same step is overtaken by the
        # block's next owner.
        self._copies: dict[int, BlockCopy] = {}

    def take_copies(self) -> list[BlockCopy]:
        """The block copies decided since the last call. They may be made all at once: no source is
        a destination of an earlier one, and every destination stands there once."""
        copies, self._copies = list(self._copies.values()), {}
        return copies

    def num_blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold `num_tokens` tokens."""
        return -(-num_tokens // self.block_size)

    def table_length(self, num_tokens: int) -> int:
        """Entries of a block table that holds `num_tokens` tokens (a baseline reserves more than
        they need).
        """
        return self.num_blocks_for(num_tokens)

    # ---- prefix lookup ----

    def get_computed_blocks(self, sequence: Sequence) -> ComputedBlocks:
        """Look up how much of `sequence` is in the cache: its longest prefix of cached blocks.
        Changes no reference count.
        """
        if not self.enable_prefix_caching:
            return NO_COMPUTED_BLOCKS
        self._extend_hashes(sequence, sequence.num_tokens)
        # a token that is not computed has no log-probability; others may hit what it
        # leaves
        if sequence.judges_prompt:
            return NO_COMPUTED_BLOCKS
        return self._longest_cached_prefix(sequence)

    def _longest_cached_prefix(self, sequence: Sequence) -> ComputedBlocks:
        """Follow the sequence's hash chain up to the first block that the cache does not hold."""
        hits: list[KVCacheBlock] = []
        for block_hash in sequence.block_hashes:
            block = self.pool.get_cached_block(block_hash)
            if block is None:
                break
            hits.append(block)
        num_cached = len(hits) * self.block_size
        return ComputedBlocks(hits, num_cached, min(num_cached, sequence.num_tokens - 1))

    def explain_miss(self, sequence: Sequence, computed: ComputedBlocks) -> None:
        """Tell the listeners why the lookup ended where it did, if it ended before the last full
        block.
        """
        why: ev.MissReason
        if not self.enable_prefix_caching:
            why = "caching_off"
        elif sequence.judges_prompt:
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
        """Whether blocks for the first `num_tokens` tokens of `sequence`, and `num_copies` more,
        could be had now.
        """
        num_new = self.num_blocks_for(num_tokens) - len(sequence.block_table) - len(computed.blocks)
        # A hit on a free block costs a free block, just like a new one.
        num_free_hits = sum(block.ref_cnt == 0 for block in computed.blocks)
        need = max(num_new, 0) + num_free_hits + num_copies
        free = self.pool.num_free_blocks
        return Shortage(need, free) if need > free else None

    def allocate_slots(
        self, sequence: Sequence, num_tokens: int, computed: ComputedBlocks = NO_COMPUTED_BLOCKS
    ) -> Shortage | None:
        """Extend the block table until it holds the first `num_tokens` tokens of `sequence`.

        `computed`: prefix hits to start the table with; only for a sequence whose table is empty.
        Returns None when done, or the shortage that prevented it, with nothing changed.
        """
        must_copy = self.writes_to_shared_block(sequence)
        shortage = self.shortage_for(sequence, num_tokens, computed, num_copies=int(must_copy))
        if shortage is not None:
            return shortage
        table = sequence.block_table
        if must_copy:
            self._copy_on_write(sequence)
        # Hits first: once touched they are off the free queue and cannot be popped below.
        for block in computed.blocks:
            was_free = self.pool.touch(block)
            if self._bus.active:
                self._bus.emit(ev.BlockHit, block.block_id, sequence.seq_id, len(table), was_free)
            table.append(block)
        sequence.num_hashed_blocks += len(computed.blocks)
        self._extend_table(sequence, num_tokens)
        return None

    def _extend_table(self, sequence: Sequence, num_tokens: int) -> None:
        """Append new blocks until the table holds the first `num_tokens` tokens; there are enough
        free ones.
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
        """Whether the next token to be written falls into a block that has another owner."""
        index = max(sequence.num_computed_tokens, sequence.num_cached_tokens) // self.block_size
        return index < len(sequence.block_table) and sequence.block_table[index].ref_cnt > 1

    def _copy_on_write(self, sequence: Sequence) -> None:
        """Give `sequence` a copy of its own of the block it is about to write to. Needs one free
        block.
        """
        # Forks share partial blocks, and only the last block of a table is partial.
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
        """Let `child` share every block of `parent`; nothing is copied now."""
        for block in parent.block_table:
            self.pool.touch(block)
            child.block_table.append(block)
        child.block_hashes = list(parent.block_hashes)
        child.num_hashed_blocks = parent.num_hashed_blocks

    def cache_full_blocks(self, sequence: Sequence, num_tokens: int) -> None:
        """Name the blocks that the first `num_tokens` tokens fill, as far as they have no name yet.

        Called when the step is planned, before the model has run: another sequence of the same step
        may then share them, since in each layer all keys and values are written before any are
        read.
        """
        if not self.enable_prefix_caching:
            return
        num_full = num_tokens // self.block_size
        if sequence.num_hashed_blocks >= num_full:
            return
        self._extend_hashes(sequence, num_tokens)
        hashes = sequence.block_hashes
        for i in range(sequence.num_hashed_blocks, num_full):
            self.pool.cache_block(sequence.block_table[i], hashes[i], hashes[i - 1] if i else None)
        sequence.num_hashed_blocks = num_full

    def evict_unused(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Let no new prompt find those of `blocks` that nobody uses now: what is written there may
        be no numbers.
        """
        for block in blocks:
            if block.ref_cnt == 0:
                self.pool.evict(block)

    def free(self, sequence: Sequence) -> None:
        """Release all blocks of `sequence`, from the tail of its table to the head."""
        while sequence.block_table:
            self._let_go(sequence, sequence.block_table.pop())
        sequence.num_hashed_blocks = 0

    def _let_go(self, sequence: Sequence, block: KVCacheBlock) -> None:
        """`block`, which stood last in the table of `sequence`, has one owner fewer."""
        if self._bus.active:
            self._bus.emit(ev.BlockReleased, block.block_id, sequence.seq_id)
        self.pool.release(block)

    def _extend_hashes(self, sequence: Sequence, num_tokens: int) -> None:
        """Bring the sequence's hash chain up to its first `num_tokens` tokens: each block is hashed
        once.
        """
        hashes, size = sequence.block_hashes, self.block_size
        while (len(hashes) + 1) * size <= num_tokens:
            start = len(hashes) * size
            parent = hashes[-1] if hashes else None
            # The salt stands in the first block's name and, through the chain, in all others.
            extra_keys = () if hashes else sequence.request.extra_keys
            hashes.append(
                hash_block_tokens(parent, sequence.token_ids[start : start + size], extra_keys)
            )
