"""Whoever asked for room has it afterwards."""

HINT = "_make_room may have preempted the very sequence that you asked for. Where would its keys and values be written?"
CHANGES = {
    "                    index = running.index(scheduled[-1].sequence) + 1 if scheduled else 0\n                    continue\n                index = running.index(sequence)\n": "                    index = sum(item.sequence in running for item in scheduled)\n                else:\n                    index = running.index(sequence)\n",
}
