"""The largest score says how much a part weighs."""

HINT = "A part with a hundred equal scores weighs a hundred times as much as one with a single one."
CHANGES = {
    "log_sum_exp = scores.logsumexp(dim=-1)": "log_sum_exp = scores.amax(dim=-1)",
    "(scores - log_sum_exp.unsqueeze(-1)).exp()": "scores.softmax(dim=-1)",
}
