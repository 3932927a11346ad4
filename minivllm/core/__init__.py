"""Memory and scheduling in plain Python: no torch, no model, no clock of its own."""
