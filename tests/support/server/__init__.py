"""TODO tests/support/server."""
