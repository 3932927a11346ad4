"""The scale is one over the root of the head size."""

HINT = "A model may have another one: that is why it is an argument."
CHANGES = {
    "        scale * LOG2_E,": "        head_size**-0.5 * LOG2_E,",
}
