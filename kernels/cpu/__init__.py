"""The kernels of a CPU, in C: linear layers, attention and the decoder's small operations in
float32.

`library` compiles the C files once and keeps the result; `ops` is their Python side, with the
shapes of every tensor.
"""
