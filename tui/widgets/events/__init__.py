"""TODO tui/widgets/events."""
