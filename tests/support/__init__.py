"""TODO tests/support."""
