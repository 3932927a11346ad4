"""The place in the list stays where it is when somebody before it is preempted."""

HINT = "One before you left the list and all behind it moved up. Whom does your index point at now?"
CHANGES = {
    "                    index = running.index(scheduled[-1].sequence) + 1 if scheduled else 0\n": "",
    "                index = running.index(sequence)\n": "",
}
