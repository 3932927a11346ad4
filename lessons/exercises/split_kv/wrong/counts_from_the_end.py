"""The last query sees the last token, and the others are counted back from there."""

HINT = "That holds where queries are the newest of the tokens. Here query i sees tokens 0 to i, whichever these are."
CHANGES = {
    ".triu(1)": ".triu(1 + num_tokens - num_queries)",
}
