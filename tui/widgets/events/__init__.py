"""Panels about events: the list of all events, one event in full, and decisions as sentences."""
