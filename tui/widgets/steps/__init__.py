"""Panels on steps: how the token budget was spent, and what each step did."""
