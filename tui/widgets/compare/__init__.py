"""TODO tui/widgets/compare."""
