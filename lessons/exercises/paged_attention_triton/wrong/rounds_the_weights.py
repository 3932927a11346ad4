"""Weights have the dtype of the values that they weigh."""

HINT = "A weight in bfloat16 has eight bits. How many of them are added up? Convert the values, and round once, at the end."
CHANGES = {
    "            acc = acc * correction[:, None] + tl.sum(weights[:, :, None] * v[None, :, :], 1)\n": "            weights = weights.to(value_cache.dtype.element_ty).to(tl.float32)\n            acc = acc * correction[:, None] + tl.sum(weights[:, :, None] * v[None, :, :], 1)\n",
}
