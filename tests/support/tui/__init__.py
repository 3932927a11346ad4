"""The dashboard driven by keys, in a test's own terminal, and readers of what it has drawn."""
