"""TODO lessons/scenarios."""
