"""The routes of the HTTP API. `answers` has what those that generate share."""
