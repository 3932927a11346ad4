"""Fixtures for more tests of the dashboard: runs with scripted answers, and an app without key bar."""

from support.tui.driven_app import no_footer
from support.tui.stages import ask, beams, drafts, memory_pressure, samples, shared_prefix, stage
