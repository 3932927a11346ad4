"""The weight of both parts is the sum of both log-sum-exps."""

HINT = "The weights are added, not their logarithms: log(exp(a) + exp(b))."
CHANGES = {
    "torch.logaddexp(mine, other_lse)": "mine + other_lse",
}
