"""`minivllm bench kernels`: attention and cache writes, compared with device copies and peers."""
