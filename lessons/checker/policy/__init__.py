"""Judges a policy on hidden traffic: `play` draws and serves it, `score` compares with `fcfs`."""
