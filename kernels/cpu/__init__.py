"""CPU kernels in C, in float32: linear layers, attention and the decoder's small operations.

`library` compiles the C files once; `ops` is the Python interface to the kernels and documents the
shapes of all tensors.
"""
