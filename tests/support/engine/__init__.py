"""An engine without a model, random traces, and reference implementations of the core."""
