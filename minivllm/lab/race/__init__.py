"""Runs the requests of a recording again, through two configurations. Read `recorded_run` first.

recorded_run   the requests of a recording, their tokens, and how long its steps took
recorded       reads them from a recording
rerun          one configuration serves these requests and writes a new recording
__main__       both sides, in a process of its own: the dashboard starts it with the key R
"""
