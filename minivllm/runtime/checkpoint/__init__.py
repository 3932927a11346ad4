"""Model files: safetensors and GGUF, opened without trusting what they claim.

Read `checkpoint` first; `weights` maps files into memory.
"""
