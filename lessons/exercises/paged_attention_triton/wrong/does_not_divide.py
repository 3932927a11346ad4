"""acc is the output."""

HINT = "The weights have not been divided by their sum. Is there any weighted mean yet?"
CHANGES = {
    "acc = acc / tl.where(running_sum > 0.0, running_sum, 1.0)[:, None]": "acc = acc",
}
