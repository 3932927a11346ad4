"""TODO minivllm/lab/bench/step."""
