"""Attention over a paged KV cache: the ladder of decode kernels, the prefill kernel, and one kernel
for mixed batches.

Read `online_softmax` first, the loop that all of them share, then `decode_naive`, `decode_grouped`,
`decode_split`, `prefill` and `unified`.
"""
