"""TODO tui/draw."""
