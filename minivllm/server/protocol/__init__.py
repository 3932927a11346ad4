"""The HTTP API's data: valid requests, and parts of the answers."""
