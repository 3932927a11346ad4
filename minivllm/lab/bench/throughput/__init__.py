"""TODO minivllm/lab/bench/throughput."""
