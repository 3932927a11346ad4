"""TODO tests/support/docs."""
