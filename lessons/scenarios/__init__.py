"""Workloads that show one idea each, and the sentences about a run at its end.

`scenarios` defines them, `player` sends them to an engine, `facts` and `stories` read its events.
"""
