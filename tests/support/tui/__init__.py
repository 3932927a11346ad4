"""TODO tests/support/tui."""
