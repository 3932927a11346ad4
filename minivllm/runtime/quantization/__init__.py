"""Weights as a checkpoint stores them: formats, stored matrices, and panels for the CPU kernel.

Read `formats` first: one row per format, with its plain reference. Nothing here computes a product;
that is `runtime/model/linear_backend.py` with kernels/cpu/linear.c.

Source of the name: vLLM `vllm/model_executor/layers/quantization`.
"""
