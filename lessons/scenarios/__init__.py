"""The demo's workloads, each of which shows one idea, and sentences about a finished run.

`scenarios` defines the workloads, `house` adapts them to the house model, and `player` sends their
requests to an engine. `facts` counts what happens in the engine's events, and `stories` writes
sentences about these facts.
"""
