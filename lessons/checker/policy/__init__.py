"""Judges a scheduling policy by what users notice, on traffic that nobody has seen before.

`play` draws traffic and serves it with the real engine on a clock whose steps cost time by a
formula, and `score` compares the figures with those of `fcfs`.
"""
