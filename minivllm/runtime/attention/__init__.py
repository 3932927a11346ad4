"""Attention over the paged KV cache: one interface, and one file for each backend.

Read `backend` first, which defines the interface, then `torch_backend`, the simplest one.
"""
