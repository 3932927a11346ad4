"""TODO tests/support/engine."""
