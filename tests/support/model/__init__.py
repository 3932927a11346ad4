"""TODO tests/support/model."""
