"""The border is how often the first character comes again."""

HINT = (
    "borders[k] asks for the longest beginning that is also an end. Does it fit character by"
    " character?"
)


def _borders_of(pattern: str) -> list[int]:
    return [0, 0, *(pattern[1:k].count(pattern[0]) for k in range(2, len(pattern) + 1))]
