"""Equal tokens have equal names, whoever sends them."""

HINT = "Two customers with different salts must never share a block. Where do the request's extra_keys go in?"
CHANGES = {
    "            extra_keys = () if hashes else sequence.request.extra_keys\n": "            extra_keys = ()\n",
}
