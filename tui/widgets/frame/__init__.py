"""TODO tui/widgets/frame."""
