"""The twin: one trace through vLLM's real scheduler and through ours, and where they differ."""
