"""Shared parts of all measurements: reports, description of the machine, traffic."""
