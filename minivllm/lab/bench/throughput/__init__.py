"""`minivllm bench throughput`: output tokens per second, compared with other engines."""
