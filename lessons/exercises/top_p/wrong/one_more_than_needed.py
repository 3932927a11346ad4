"""A token stays while those before it have at most top_p of the mass."""

HINT = "Those before it have reached top_p exactly. Is it still needed?"
CHANGES = {
    "mass_before < top_p * total": "mass_before <= top_p * total",
}
