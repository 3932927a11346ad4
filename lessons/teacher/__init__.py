"""TODO lessons/teacher."""
