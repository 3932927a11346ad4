"""TODO minivllm/lab/bench/dashboard."""
