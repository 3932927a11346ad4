"""TODO minivllm/events/recording."""
