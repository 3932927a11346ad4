"""The last row has no draft to compare it with, so it is never used."""

from minivllm.speculation.verify import Drawn
from minivllm.speculation.verify import _final as accepted_and_one

HINT = (
    "With k drafts there are k + 1 rows. If all drafts are right, which text did the last row"
    " continue?"
)


def _final(rows: list[Drawn], drafts: list[int]) -> list[Drawn]:
    return accepted_and_one(rows, drafts)[: max(len(drafts), 1)]
