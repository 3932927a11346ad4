"""The endpoints, a module each."""
