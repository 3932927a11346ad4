"""TODO minivllm/events/perfetto."""
