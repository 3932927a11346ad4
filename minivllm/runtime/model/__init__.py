"""The decoder: one readable model for all families of `model_config.py`."""
