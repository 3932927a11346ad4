"""Workloads that show one idea each: what a demo, a lesson or a test sends to the engine, and why.

    scenarios   who asks what and when, as plain data
    player      sends a scenario's requests at their steps
    facts       what came of a run, counted from its events
    stories     the same in three sentences

They know requests, options and events, and nothing of how the engine schedules: what is seen on the
screen is the engine's own doing. The easy thing to get wrong is the name: this folder stands at the
top of the repository and is imported as `minivllm.lessons`, never as `lessons`.
"""
