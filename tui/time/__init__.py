"""The current position in a recording, and moves to other positions. Read `transport` first."""
