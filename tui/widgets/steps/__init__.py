"""Panels about steps: how each step used its token budget, and what the step did."""
