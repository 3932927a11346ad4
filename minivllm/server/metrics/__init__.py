"""`/metrics` for Prometheus under vLLM's names, counted from events alone. Read `engine_totals`
first.
"""
