"""A row of queries is num_heads * head_size numbers long."""

HINT = "In the engine queries, keys and values of a token come out of one product, side by side. What says where the next row begins?"
CHANGES = {
    "        *query.stride()[:2],\n": "        num_heads * head_size,\n        head_size,\n",
}
