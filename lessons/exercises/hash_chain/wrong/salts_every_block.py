"""The salt must stand in every block's name."""

HINT = (
    "Through its parent a name depends on the first block's salt already. Who else would have to name blocks as you do?"
)
CHANGES = {
    "            extra_keys = () if hashes else sequence.request.extra_keys\n": "            extra_keys = sequence.request.extra_keys\n",
}
