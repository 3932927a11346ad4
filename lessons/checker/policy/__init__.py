"""Judges a scheduling policy by what users notice, on traffic that nobody has seen before.

    traffic   requests drawn from a seed: short chats, and long documents that nobody waits for
    play      serves them with the real engine and scripted tokens, on a clock whose steps cost time
    score     waiting times and throughput, compared with those of `fcfs`

There is no right answer to compare with. A step costs time by a formula, so the figures depend on
the decisions of the policy alone, and are the same on every machine.
"""
