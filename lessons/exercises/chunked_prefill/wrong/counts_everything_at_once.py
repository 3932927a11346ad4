"""A sequence in the plan counts as computed."""

HINT = "Only a chunk of it is in the plan. Where does the next chunk begin, if all counts as computed?"
CHANGES = {
    "        sequence.num_computed_tokens = end\n": "        sequence.num_computed_tokens = sequence.num_tokens\n",
}
