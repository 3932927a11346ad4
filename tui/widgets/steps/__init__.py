"""TODO tui/widgets/steps."""
