"""TODO lessons/course."""
