"""The log-sum-exp is taken of the products of queries and keys."""

HINT = "The weights are exp of the scaled scores. Parts are weighed against each other by the same numbers."
CHANGES = {
    "log_sum_exp = scores.logsumexp(dim=-1)": "log_sum_exp = (scores / scale).logsumexp(dim=-1)",
    "(scores - log_sum_exp.unsqueeze(-1)).exp()": "scores.softmax(dim=-1)",
}
