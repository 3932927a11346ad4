"""A server on loopback, whole or in parts."""
