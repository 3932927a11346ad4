"""The border is the number of times that the first character is repeated."""

HINT = (
    "borders[k] is the longest proper prefix that is also a suffix. Do prefix and suffix match"
    " character by character?"
)


def _borders_of(pattern: str) -> list[int]:
    return [0, 0, *(pattern[1:k].count(pattern[0]) for k in range(2, len(pattern) + 1))]
