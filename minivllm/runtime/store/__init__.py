"""From a model's name to files on this machine: the local cache, the Hub, a wheel from PyPI, or
made on the spot.

Read `model_store` first.
"""
