"""Runs the requests of a recording again, through two configurations. Read `rerun` first.

rerun      one configuration serves recorded requests and writes a new recording
recorded   reads the requests, their tokens and the time of steps from a recording
__main__   both sides, in a process of its own: the dashboard starts it with the key R
"""
