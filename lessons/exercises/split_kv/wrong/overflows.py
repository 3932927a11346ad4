"""log(sum(exp(scores))) is the log-sum-exp."""

HINT = "exp(100) is infinite in float32. Subtract the largest score first, or let torch.logsumexp do so."
CHANGES = {
    "log_sum_exp = scores.logsumexp(dim=-1)": "log_sum_exp = scores.exp().sum(dim=-1).log()",
    "(scores - log_sum_exp.unsqueeze(-1)).exp()": "scores.softmax(dim=-1)",
}
