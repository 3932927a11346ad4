"""First the shared block is let go, then a new one is taken: so there is always one free."""

HINT = "A block that you let go as its last owner is free, and the next pop may give you the same one. Pop first, release last."
CHANGES = {
    "        own = self.pool.pop_free_block()\n        self._copies": "        self.pool.release(shared)\n        own = self.pool.pop_free_block()\n        self._copies",
    "        # BEGIN SOLUTION copy-on-write\n        self.pool.release(shared)\n        # END SOLUTION\n": "",
}
