"""At the first difference, the draft is taken instead of the model's own token."""

from minivllm.outputs import SampledToken
from minivllm.speculation.verify import Drawn
from minivllm.speculation.verify import _final as accepted_and_one

HINT = (
    "Where draft and drawn token differ, which of the two would the engine have written without"
    " drafts?"
)


def _final(rows: list[Drawn], drafts: list[int]) -> list[Drawn]:
    final = accepted_and_one(rows, drafts)
    if len(final) <= len(drafts):
        sequence, _ = final.pop()
        final.append((sequence, SampledToken(drafts[len(final)])))
    return final
