"""TODO tui/widgets/blocks."""
