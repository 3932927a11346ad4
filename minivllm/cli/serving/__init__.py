"""Commands that run a model: `demo`, `live`, `chat`, `generate`, `serve`; and `model`."""
