"""Attention over a paged KV cache: four decode kernels, a prefill kernel, and a unified kernel.

Read `online_softmax` first, the loop that they all share, then `decode_naive`, `decode_grouped`,
`decode_split`, `prefill` and `unified`.
"""
