"""Panels on requests: batch slots, who waits, who is done, and every life as a line."""
