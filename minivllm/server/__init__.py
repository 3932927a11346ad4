"""The HTTP server, a layer above the engine: OpenAI's API, metrics and feeds of events."""
