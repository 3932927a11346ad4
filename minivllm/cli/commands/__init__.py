"""TODO minivllm/cli/commands."""
