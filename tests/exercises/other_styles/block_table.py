"""divmod for the ceiling, and an index for the way back."""


class KVCacheManager:
    def num_blocks_for(self, num_tokens):
        whole, rest = divmod(num_tokens, self.block_size)
        return whole + 1 if rest else whole

    def _extend_table(self, sequence, num_tokens):
        table = sequence.block_table
        while len(table) * self.block_size < num_tokens:
            self._append_new_block(sequence)

    def free(self, sequence):
        sequence.num_hashed_blocks = 0
        for index in range(len(sequence.block_table) - 1, -1, -1):
            block = sequence.block_table[index]
            del sequence.block_table[index]
            self._let_go(sequence, block)
