"""`minivllm bench kernels`: attention and cache writes, compared with a plain copy and peers."""
