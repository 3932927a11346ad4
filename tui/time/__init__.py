"""TODO tui/time."""
