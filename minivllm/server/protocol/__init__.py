"""The HTTP API's data models: valid requests, and the answers."""
