"""The log-sum-exp has the dtype of the queries."""

HINT = "bfloat16 has 8 bits: between 128 and 256 it knows whole numbers only. exp of a difference that is off by one is off by a factor of e."
CHANGES = {
    "log_sum_exp.reshape(shape)": "log_sum_exp.reshape(shape).to(query.dtype)",
}
