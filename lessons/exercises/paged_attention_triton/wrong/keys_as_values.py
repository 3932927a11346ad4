"""The weighted mean is that of the keys."""

HINT = "Keys say where to look. What is found there lies in the other cache."
CHANGES = {
    "v = tl.load(value_cache + pointers": "v = tl.load(key_cache + pointers",
}
