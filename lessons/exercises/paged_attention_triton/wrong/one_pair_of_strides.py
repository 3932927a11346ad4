"""The output lies as the query does."""

HINT = "`out` may be given, and then it lies as whoever made it wanted. It has strides of its own, after those of the query."
CHANGES = {
    "        *out.stride()[:2],\n": "        *query.stride()[:2],\n",
}
