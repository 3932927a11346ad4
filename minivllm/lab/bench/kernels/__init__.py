"""TODO minivllm/lab/bench/kernels."""
