"""TODO tui/vllm."""
