"""Runs the requests of a recording again, through two configurations. Read `recorded` first.

recorded   the requests of a recording, their tokens, and how long its steps took
rerun      one configuration serves these requests and writes a new recording
__main__   both sides, in a process of its own: the dashboard starts it with the key R
"""
