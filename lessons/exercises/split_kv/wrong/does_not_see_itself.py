"""Query i sees what came before it."""

HINT = "A query sees its own token, too, or the first one sees nothing at all."
CHANGES = {
    ".triu(1)": ".triu(0)",
}
