"""What was summed up stays as it is."""

HINT = (
    "A later tile has raised the largest score. In which units are the earlier sums? softmax_update returns a factor."
)
CHANGES = {
    "acc = acc * correction[:, None] + ": "acc = acc + ",
}
