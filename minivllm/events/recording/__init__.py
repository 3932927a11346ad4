"""The event log in a file: `log` writes it, `recording` reads any moment of it quickly."""
