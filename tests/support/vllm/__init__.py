"""Helpers for tests of the recorder for a real vLLM."""
