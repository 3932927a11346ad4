"""All own rows come first, and then the rows after drafts of all sequences."""

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.speculation.verify import Drawn, Verified, _final

HINT = (
    "Two sequences have two drafts each: that makes six rows. Which rows belong to the second"
    " sequence?"
)


def verify(plan: SchedulerOutput, drawn: list[Drawn]) -> tuple[list[Drawn], list[Verified]]:
    rows = iter(drawn)
    own = [[next(rows) for _ in item.sampling] for item in plan.scheduled]
    without_drafts, verified = [], []
    for item, mine in zip(plan.scheduled, own, strict=True):
        after_drafts = [next(rows) for _ in item.draft_token_ids]
        if not after_drafts or isinstance(mine[0][1], SamplingError):
            without_drafts += mine
        else:
            verified.append(Verified(item, _final([*mine, *after_drafts], item.draft_token_ids)))
    return without_drafts, verified
