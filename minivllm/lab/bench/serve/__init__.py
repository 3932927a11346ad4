"""TODO minivllm/lab/bench/serve."""
