"""`minivllm bench serve`: a running server under load, as `vllm bench serve` does it."""
