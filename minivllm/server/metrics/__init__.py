"""`/metrics` for Prometheus under vLLM's names, counted from events. Read `engine_totals` first."""
