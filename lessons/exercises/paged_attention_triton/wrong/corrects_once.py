"""The first tile is scaled down when the second one comes."""

HINT = "A third tile may have a larger score than both. Which tiles may raise the largest score, and what is scaled down then?"
CHANGES = {
    "            acc = acc * correction[:, None] + tl.sum(weights[:, :, None] * v[None, :, :], 1)\n": "            if tile_start == TILE:\n                acc = acc * correction[:, None]\n            acc += tl.sum(weights[:, :, None] * v[None, :, :], 1)\n",
}
