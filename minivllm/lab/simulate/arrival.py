"""`Arrival`: one simulated request."""

from typing import NamedTuple


class Arrival(NamedTuple):
    at: float
    """Seconds from the start."""
    prompt_tokens: int
    """Prompt length, including the shared prefix."""
    output_tokens: int
    prefix_group: int | None = None
    """Requests of one group start with the same `prefix_tokens` tokens."""
    prefix_tokens: int = 0
    priority: int = 0
