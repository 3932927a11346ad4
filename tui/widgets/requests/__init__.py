"""TODO tui/widgets/requests."""
