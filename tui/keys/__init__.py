"""TODO tui/keys."""
