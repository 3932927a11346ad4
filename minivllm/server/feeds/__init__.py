"""TODO minivllm/server/feeds."""
