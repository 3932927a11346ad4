"""Loops with early exits, one dictionary of pairs, and runs that are counted by hand."""

from minivllm.events.kv_usage import _BlockSlots, _Tally


class KVUsage:
    def allocated(self):
        return sum((self.used, self.reserved, self.internal))

    def waste(self):
        allocated = self.used + self.reserved + self.internal
        if allocated == 0:
            return 0.0
        return 1 - self.used / allocated


class KVUsageMeter:
    def _slots_of(self, sequence):
        header = self.fold.header
        size = header.block_size
        held = max(sequence.num_computed_tokens, sequence.num_cached_tokens)
        length = sequence.num_prompt_tokens + self.fold.requests[sequence.request_id].max_tokens
        final = min(length, header.max_model_len) - 1
        found = []
        for block_id in sequence.block_table:
            used, wanted = (sorted((0, number, size))[1] for number in (held, final))
            found.append(_BlockSlots(block_id, used, max(used, wanted)))
            held, final = held - size, final - size
        return iter(found)

    def _tally(self, entries):
        most = {}
        for block_id, used, wanted in entries:
            before = most.get(block_id, (0, 0))
            most[block_id] = (max(before[0], used), max(before[1], wanted))
        size = self.fold.header.block_size
        used = sum(pair[0] for pair in most.values())
        reserved = sum(pair[1] - pair[0] for pair in most.values())
        return _Tally(used, reserved, sum(size - pair[1] for pair in most.values()))

    def _num_useless_blocks(self):
        header = self.fold.header
        if header.config.get("kv_cache_allocator") != "contiguous":
            return 0
        needed = (header.max_model_len + header.block_size - 1) // header.block_size
        useless = run = 0
        for block in self.fold.blocks:
            if block.ref_cnt:
                useless, run = useless + run, 0
            else:
                run = (run + 1) % needed
        return useless + run
