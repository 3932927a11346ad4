"""Workloads that show one idea each: what a demo, a lesson or a test sends to the engine, and why.

They know requests and options, and nothing of how the engine schedules them: what is then seen on
the screen is the engine's own doing. The easy thing to get wrong is the name: this folder stands at
the top of the repository and is imported as `minivllm.lessons`, never as `lessons`.
"""
