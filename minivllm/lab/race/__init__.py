"""Runs the requests of a recording again, through two configurations. Read `rerun` first."""
