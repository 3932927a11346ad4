"""The other part's share has the dtype of the outputs that it weighs."""

HINT = "A share of 0.5 in bfloat16 may be off by a thousandth, and of two outputs of 100 and -100 a thousandth is much. Round once, at the end."
CHANGES = {
    "torch.lerp(output[rows].float(), other.float(), share).to(output.dtype)": "torch.lerp(output[rows], other, share.to(output.dtype))",
}
