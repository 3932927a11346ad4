"""A draft is accepted as a whole or not at all."""

from minivllm.speculation.verify import Drawn
from minivllm.speculation.verify import _final as accepted_and_one

HINT = "The first two of three drafts are right. What is wrong with these two?"


def _final(rows: list[Drawn], drafts: list[int]) -> list[Drawn]:
    final = accepted_and_one(rows, drafts)
    return final if len(final) == len(rows) else rows[:1]
