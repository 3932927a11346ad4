"""A span is made of whole blocks."""

HINT = "What came before a chunk may end within a block. How many of the gathered tokens are the span's?"
CHANGES = {
    "(x[:, :, : span.num_tokens] for x in self._read(cache, span.block_ids, num_seqs=1))": "self._read(cache, span.block_ids, num_seqs=1)",
}
