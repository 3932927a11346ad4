"""The position in a recording, and how to move it. Read `transport` first."""
