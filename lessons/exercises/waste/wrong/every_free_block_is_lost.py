"""With reservations, free blocks are external waste."""

HINT = "A run of free neighbours that is long enough will take the next request. Only what cannot is wasted."
CHANGES = {
    "        runs = groupby(self.fold.blocks, key=lambda block: block.ref_cnt == 0)\n        return sum(sum(1 for _ in blocks) % num_reserved for is_free, blocks in runs if is_free)\n": "        return sum(block.ref_cnt == 0 for block in self.fold.blocks)\n",
}
