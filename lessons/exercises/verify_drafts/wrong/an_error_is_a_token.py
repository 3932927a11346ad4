"""A row counts if the draft before it was right, whatever the row itself has."""

from minivllm.speculation.verify import Drawn

HINT = "The draft was right, but the sampler failed on its row. Which token would you append?"


def _final(rows: list[Drawn], drafts: list[int]) -> list[Drawn]:
    final = [rows[0]]
    for draft, row in zip(drafts, rows[1:], strict=True):
        if getattr(final[-1][1], "token_id", None) != draft:
            break
        final.append(row)
    return final
