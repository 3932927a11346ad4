"""Workloads that show one idea each, and the sentences about a run at its end.

`scenarios` defines them as plain data: requests and when they arrive. `player` sends them to an
engine; `facts` and `stories` read its events.
"""
