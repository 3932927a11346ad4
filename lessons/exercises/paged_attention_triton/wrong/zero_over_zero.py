"""Whatever has been summed is divided by the sum."""

HINT = "A padded row has no tile and a sum of 0. What is 0 / 0?"
CHANGES = {
    "tl.where(running_sum > 0.0, running_sum, 1.0)[:, None]": "running_sum[:, None]",
}
