"""TODO minivllm/server/http."""
