"""What comes out of a step is the accepted drafts, or the usual one token if there are none."""

from minivllm.speculation.verify import Drawn
from minivllm.speculation.verify import _final as accepted_and_one

HINT = (
    "The row after the last accepted draft continued the real text. Why should its token be thrown"
    " away and drawn again?"
)


def _final(rows: list[Drawn], drafts: list[int]) -> list[Drawn]:
    return accepted_and_one(rows, drafts)[:-1] or rows[:1]
