"""Panels of the Compare screen: two recordings side by side."""
