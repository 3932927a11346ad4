"""Merging changes the output; how much weight there is stays."""

HINT = "Then a third part is weighed against the first alone. What is the log-sum-exp of both?"
CHANGES = {
    "    log_sum_exp[rows] = torch.logaddexp(mine, other_lse)\n": "",
}
