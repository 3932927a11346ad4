"""An engine without a model, random runs, and reference implementations of the core."""
