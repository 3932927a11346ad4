"""An item without drafts has exactly one row."""

from itertools import islice

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.speculation.verify import Drawn, Verified, _final

HINT = (
    "A chunk in the middle of a prompt draws no token, and the end of a prompt with three samples"
    " draws three. Where does the item say so?"
)


def verify(plan: SchedulerOutput, drawn: list[Drawn]) -> tuple[list[Drawn], list[Verified]]:
    without_drafts, verified = [], []
    rows = iter(drawn)
    for item in plan.scheduled:
        own = list(islice(rows, 1))
        after_drafts = [next(rows) for _ in item.draft_token_ids]
        if not after_drafts or isinstance(own[0][1], SamplingError):
            without_drafts += own
        else:
            verified.append(Verified(item, _final([*own, *after_drafts], item.draft_token_ids)))
    return without_drafts, verified
