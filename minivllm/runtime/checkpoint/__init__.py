"""Model files: safetensors and GGUF, opened without trusting their contents.

Read `checkpoint` first; `weights` reads the tensors.
"""
