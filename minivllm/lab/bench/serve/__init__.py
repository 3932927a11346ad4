"""`minivllm bench serve`: measures a running server under load, like `vllm bench serve`."""
