"""It is the number of free blocks that says how many reservations fit."""

HINT = "Two free blocks here and two there: does a reservation of three fit? It needs neighbours."
CHANGES = {
    "        runs = groupby(self.fold.blocks, key=lambda block: block.ref_cnt == 0)\n        return sum(sum(1 for _ in blocks) % num_reserved for is_free, blocks in runs if is_free)\n": "        return sum(block.ref_cnt == 0 for block in self.fold.blocks) % num_reserved\n",
}
