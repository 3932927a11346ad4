"""Chunks and decodes are all there is."""

HINT = "A chunk attends to its own tokens. Where is the context from before it, and the prefix that others share?"
CHANGES = {
    "        for span in metadata.spans:\n            q =": "        for span in ():\n            q =",
}
