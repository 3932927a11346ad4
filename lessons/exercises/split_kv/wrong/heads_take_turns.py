"""Neighbouring query heads have different key heads."""

HINT = "With 4 query heads and 2 key heads, heads 0 and 1 share the first one. Which of your two new dimensions comes first?"
CHANGES = {
    "query.reshape(batch, num_kv_heads, -1, num_queries, head_size)": "query.reshape(batch, -1, num_kv_heads, num_queries, head_size)",
    "key.unsqueeze(2)": "key.unsqueeze(1)",
    "value.unsqueeze(2)": "value.unsqueeze(1)",
}
