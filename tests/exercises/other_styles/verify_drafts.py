"""Slices instead of an iterator, recursion instead of a loop."""

from minivllm.runtime.sampling.sampler import SamplingError
from minivllm.speculation.verify import Verified, _final


def verify(plan, drawn):
    without, verified, begin = [], [], 0
    for item in plan.scheduled:
        middle = begin + len(item.sampling)
        end = middle + len(item.draft_token_ids)
        rows = drawn[begin:end]
        begin = end
        if item.draft_token_ids and not isinstance(rows[0][1], SamplingError):
            verified.append(Verified(item, _final(rows, item.draft_token_ids)))
        else:
            without.extend(rows[: len(item.sampling)])
    return without, verified


def _final_(rows, drafts):
    if not drafts or rows[0][1].token_id != drafts[0] or isinstance(rows[1][1], SamplingError):
        return rows[:1]
    return rows[:1] + _final(rows[1:], drafts[1:])


def roll_back(item, num_accepted, manager):
    num_wrong = len(item.draft_token_ids[num_accepted:])
    end = item.start + item.num_tokens - num_wrong
    item.sequence.num_computed_tokens = end
    manager.shrink(item.sequence, end)
    item.num_accepted = num_accepted
