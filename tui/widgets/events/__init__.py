"""Panels on the event stream: the list, one event in full, and decisions as sentences."""
