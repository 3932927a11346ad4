"""Whoever has drafts is verified, even if its own row has an error."""

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.speculation.verify import Drawn, Verified, _final

HINT = (
    "The sampler failed on the sequence's own row, which has nothing to do with its drafts. Which"
    " list do requests that fail belong to?"
)


def verify(plan: SchedulerOutput, drawn: list[Drawn]) -> tuple[list[Drawn], list[Verified]]:
    without_drafts, verified = [], []
    rows = iter(drawn)
    for item in plan.scheduled:
        own = [next(rows) for _ in item.sampling]
        after_drafts = [next(rows) for _ in item.draft_token_ids]
        if not after_drafts:
            without_drafts += own
        elif not hasattr(own[0][1], "token_id"):
            verified.append(Verified(item, own))
        else:
            verified.append(Verified(item, _final([*own, *after_drafts], item.draft_token_ids)))
    return without_drafts, verified
