"""From a model's name to local files: from the cache, the Hub, a PyPI wheel, or generated.

Read `model_store` first.
"""
