"""The decoder: one readable model for Llama, Qwen2 and Qwen3."""
