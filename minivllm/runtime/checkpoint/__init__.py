"""Model files: safetensors and GGUF, read with limits.

Read `checkpoint` first; `weights` reads the tensors.
"""
