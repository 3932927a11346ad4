"""The commands for learners and teachers: `lesson` and `exercise`."""
