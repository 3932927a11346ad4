"""The commands that run a model: `demo`, `live`, `chat`, `generate`, `serve`, and `model`, which
fetches one.
"""
