"""TODO lessons/shown."""
