"""The weight of the other part goes to this one."""

HINT = "torch.lerp(a, b, w) is a where w is 0. Which part has nearly all the weight if its log-sum-exp is far larger?"
CHANGES = {
    "torch.sigmoid(other_lse - mine)": "torch.sigmoid(mine - other_lse)",
}
