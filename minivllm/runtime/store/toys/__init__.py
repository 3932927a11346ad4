"""Generated models: a tiny one with random weights, and one with the shape of Qwen3-0.6B."""
