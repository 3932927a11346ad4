"""Workloads that show one idea each, and what is said of a run at its end.

`scenarios` holds them as plain data: who asks what, and when. `player` sends them to an engine;
`facts` and `stories` read its events.
"""
