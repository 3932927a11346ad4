"""The mask is a part of the scores, so it is scaled with them."""

HINT = "`scale` belongs to the products of queries and keys. What becomes of a mask of -1 that is scaled by a half?"
CHANGES = {
    "scores = scores + mask.unsqueeze(1).float()": "scores = scores + mask.unsqueeze(1).float() * scale",
}
