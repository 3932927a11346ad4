"""Scores that are -inf need no key, so it does not matter which key is loaded for them."""

HINT = "It is loaded all the same, from where position 19 of a sequence of 18 would be: whose memory is that, and who pays for the traffic?"
CHANGES = {
    "k = tl.load(key_cache + pointers, mask=mask, other=0.0)": "k = tl.load(key_cache + pointers, mask=is_dim[None, :], other=0.0)",
}
