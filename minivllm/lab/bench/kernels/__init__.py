"""`minivllm bench kernels`: attention and cache writes against the device's own copy, and against
other implementations.
"""
