"""A request takes one batch slot."""

HINT = "Three samples are three sequences once the prompt is computed. Where do the other two run?"
CHANGES = {
    "        num_slots = self.slots.num_needed(sequence.request)\n": "        num_slots = 1\n",
}
