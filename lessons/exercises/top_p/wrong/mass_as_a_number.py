"""The weights add up to 1."""

HINT = "They are whole numbers in the right ratios. Of which sum is top_p a part?"
CHANGES = {
    "mass_before < top_p * total": "mass_before < top_p",
}
