"""A run is of no use if it is shorter than a reservation."""

HINT = "A run of five takes one reservation of three. What becomes of the other two blocks?"
CHANGES = {
    "        return sum(sum(1 for _ in blocks) % num_reserved for is_free, blocks in runs if is_free)\n": "        lengths = [sum(1 for _ in blocks) for is_free, blocks in runs if is_free]\n        return sum(length for length in lengths if length < num_reserved)\n",
}
