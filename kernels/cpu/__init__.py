"""CPU kernels in C, in float32: linear layers, attention and the decoder's small operations.

`library` compiles the C files once; `ops` is their Python interface, with the shapes of all
tensors.
"""
