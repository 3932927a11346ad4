"""Query i sees one token more than i."""

HINT = "Query 0 sees token 0 and no other. From which diagonal on is the future?"
CHANGES = {
    ".triu(1)": ".triu(2)",
}
