"""Memory: right solutions of its exercises in another style; see test_unseen_solutions.py."""

from minivllm.core.block_math import hash_block_tokens
from minivllm.core.block_pool import BlockPoolError
from minivllm.core.kv_cache_manager import ComputedBlocks
from minivllm.core.scheduler_output import BlockCopy
from minivllm.events import types as ev
from minivllm.lessons.shown.tiny_attention import TinyKVCache, next_token


class TinyKVCache_:  # noqa: N801
    # kv-cache: generation by recursion, and sums by formula.
    def extend(self, model, token_ids):
        while (position := len(self.keys)) < len(token_ids):
            pair = model.key_and_value(token_ids[position], position)
            for stored, numbers in zip((self.keys, self.values), pair, strict=True):
                stored.append(numbers)


def next_token_(model, token_ids, cache):
    cache.extend(model, token_ids)
    *_, (position, newest) = enumerate(token_ids)
    attended = model.attend(model.query(newest, position), cache.keys, cache.values)
    return model.choose(attended)


def generate_without_cache(model, prompt, max_tokens):
    if max_tokens == 0:
        return []
    first = next_token(model, prompt, TinyKVCache())
    return [first, *generate_without_cache(model, [*prompt, first], max_tokens - 1)]


def generate_with_cache(model, prompt, max_tokens):
    cache, new = TinyKVCache(), []
    while len(new) < max_tokens:
        new += [next_token(model, [*prompt, *new], cache)]
    return new


def num_tokens_computed(num_prompt_tokens, max_tokens, has_cache):
    if not has_cache:
        return max_tokens * num_prompt_tokens + max_tokens * (max_tokens - 1) // 2
    return num_prompt_tokens + max_tokens - 1


class KVCacheManager:
    # block-table: divmod for the ceiling, and an index for the way back.
    def num_blocks_for(self, num_tokens):
        whole, rest = divmod(num_tokens, self.block_size)
        return whole + 1 if rest else whole

    def _extend_table(self, sequence, num_tokens):
        table = sequence.block_table
        while len(table) * self.block_size < num_tokens:
            self._append_new_block(sequence)

    def free(self, sequence):
        blocks = []
        while sequence.block_table:
            blocks.append(sequence.block_table.pop())
        self._let_go(sequence, blocks)

    # hash-chain: takewhile for the prefix; positions instead of counts for the chain.
    def _longest_cached_prefix(self, sequence):
        from itertools import takewhile  # the engine's file does not import it

        found = map(self.pool.get_cached_block, sequence.block_hashes)
        blocks = list(takewhile(lambda block: block is not None, found))
        cached = self.block_size * len(blocks)
        if cached < sequence.num_tokens:
            return ComputedBlocks(blocks, cached, cached)
        return ComputedBlocks(blocks, cached, sequence.num_tokens - 1)

    def _extend_hashes(self, sequence, num_tokens):
        size, chain = self.block_size, sequence.block_hashes
        parent = chain[-1] if chain else None
        for begin in range(len(chain) * size, num_tokens - size + 1, size):
            tokens = sequence.token_ids[begin : begin + size]
            salt = sequence.request.extra_keys if begin == 0 else ()
            parent = hash_block_tokens(parent, tokens, salt)
            chain += [parent]

    # copy-on-write: pop and append for the table; touch after the copy of the list.
    def writes_to_shared_block(self, sequence):
        position = sequence.num_computed_tokens
        if sequence.num_cached_tokens > position:
            position = sequence.num_cached_tokens
        for block in sequence.block_table[position // self.block_size :][:1]:
            return block.ref_cnt > 1
        return False

    def _copy_on_write(self, sequence):
        own = self.pool.pop_free_block()
        shared = sequence.block_table.pop()
        sequence.block_table.append(own)
        self._copies.update({own.block_id: BlockCopy(src=shared.block_id, dst=own.block_id)})
        if self._bus.active:
            index = sequence.block_table.index(own)
            event = (shared.block_id, own.block_id, sequence.seq_id, index)
            self._bus.emit(ev.BlockCopied, *event)
        self.num_copied_blocks += 1
        self.pool.release(shared)

    def fork(self, parent, child):
        child.block_hashes = parent.block_hashes[:]
        child.block_table.extend(parent.block_table)
        for block in child.block_table:
            self.pool.touch(block)


class FreeKVCacheBlockQueue:
    # lru: the count says whether the queue is empty; neighbours have names.
    def popleft(self):
        if self.num_free_blocks > 0:
            first = self._head.next_free
            self.remove(first)
            return first
        raise BlockPoolError("There is no free block.")

    def remove(self, block):
        before, after = block.prev_free, block.next_free
        if before is None or after is None:
            raise BlockPoolError("This block is not free.")
        block.next_free = None
        block.prev_free = None
        after.prev_free = before
        before.next_free = after
        self.num_free_blocks = self.num_free_blocks - 1

    def _insert_between(self, left, block, right):
        if block.prev_free is None and block.next_free is None:
            right.prev_free = block
            left.next_free = block
            block.next_free = right
            block.prev_free = left
            self.num_free_blocks = self.num_free_blocks + 1
            return
        raise BlockPoolError("This block is free already.")


class BlockPool:
    def _put_back(self, block):
        end = "head" if block.block_hash is None else "tail"
        join = {"head": self.free_queue.prepend, "tail": self.free_queue.append}[end]
        join(block)
        if self._bus.active:
            self._bus.emit(ev.BlockFreed, block.block_id, end)

    # block-pool: a case for each count.
    def _hand_out(self, block):
        if block.block_hash is not None:
            self.evict(block)
        block.ref_cnt = 1
        return block

    def touch(self, block):
        if block.ref_cnt:
            block.ref_cnt += 1
            return False
        self.free_queue.remove(block)
        block.ref_cnt = 1
        return True

    def release(self, block):
        match block.ref_cnt:
            case 0:
                raise BlockPoolError("Nobody has this block.")
            case 1:
                block.ref_cnt = 0
                self._put_back(block)
            case owners:
                block.ref_cnt = owners - 1


# two-tiers: a loop that walks the chain.
class SimpleCPUOffloadConnector:
    def get_num_new_matched_tokens(self, sequence, num_computed_tokens):
        size, host = self._manager.block_size, self.pool
        chain = [] if sequence.wants_prompt_logprobs else sequence.block_hashes
        end = first = num_computed_tokens // size
        if self._num_ahead is not None and end < len(chain) and host.get_cached_block(chain[end]):
            self._rescue(self._manager.num_blocks_for(sequence.num_tokens))
        while end < len(chain) and host.get_cached_block(chain[end]):
            end += 1
        return (end - first) * size
