"""Memory and scheduling in plain Python, without torch, a model or a clock."""
