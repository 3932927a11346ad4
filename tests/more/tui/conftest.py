"""Fixtures for more tests of the dashboard: runs with scripted answers."""

from support.tui.stages import ask, beams, drafts, memory_pressure, samples, shared_prefix, stage
