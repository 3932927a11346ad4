"""A draft is compared with the token of the row that computed the draft."""

from minivllm.errors import SamplingError
from minivllm.speculation.verify import Drawn

HINT = (
    "Row 1 computed the first draft, and drew the token after it. Which row drew the token that"
    " the first draft guessed?"
)


def _final(rows: list[Drawn], drafts: list[int]) -> list[Drawn]:
    final = [rows[0]]
    for draft, row in zip(drafts, rows[1:], strict=True):
        if isinstance(row[1], SamplingError) or row[1].token_id != draft:
            break
        final.append(row)
    return final
