"""If any row has an error, no draft is accepted."""

from minivllm.errors import SamplingError
from minivllm.speculation.verify import Drawn
from minivllm.speculation.verify import _final as accepted_and_one

HINT = (
    "An error after a wrong draft means nothing, and one after two right drafts says nothing about"
    " the tokens before it."
)


def _final(rows: list[Drawn], drafts: list[int]) -> list[Drawn]:
    if any(isinstance(token, SamplingError) for _, token in rows):
        return rows[:1]
    return accepted_and_one(rows, drafts)
