"""Keys that are not loaded score 0."""

HINT = "exp2(0) is 1: a position that is not there has weight. Which score has none?"
CHANGES = {
    'tl.where(is_real, tl.sum(q[None, :] * k, 1) * scale, float("-inf"))': "tl.sum(q[None, :] * k, 1) * scale",
}
