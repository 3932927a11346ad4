"""TODO tui/answers."""
