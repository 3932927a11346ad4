"""The HTTP server: OpenAI's API, and what lets others watch the engine. Stands above the engine, as
the commands do.
"""
