"""Attention over the paged KV cache, a backend a file, behind one interface.

Read `backend` first: what a backend is given and what it must compute. `torch_backend` is the
plainest.
"""
