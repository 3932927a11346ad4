"""`verify`: which drafts of a step are final, given the tokens that were drawn after each of them;
and `roll_back`: how a sequence forgets the others.

drafts     7  3  9
drawn      7  3  4  8      row i was drawn as if the drafts before it were right
final      7  3  4         2 drafts accepted; row 3 followed a wrong draft and means nothing

Source: vLLM `vllm/v1/sample/rejection_sampler.py`, and `update_from_output` in
`vllm/v1/core/sched/scheduler.py`.
"""

from typing import NamedTuple

from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.outputs import SampledToken

Drawn = tuple[Sequence, SampledToken | SamplingError]
"""A row's sequence (or `DraftedSequence`), and its token."""


class Verified(NamedTuple):
    """The final tokens of a sequence with drafts: the accepted drafts and one of its own."""

    item: ScheduledDrafts
    rows: list[Drawn]
    """At least one, none with an error."""


def verify(plan: SchedulerOutput, drawn: list[Drawn]) -> tuple[list[Drawn], list[Verified]]:
    """Split a plan's rows into those of sequences without drafts, and the final ones of others.

    drawn: one for each row of the plan

    If a sequence's own row has an error, it counts as a sequence without drafts.
    """
    without_drafts: list[Drawn] = []
    verified: list[Verified] = []
    rows = iter(drawn)
    for item in plan.scheduled:
        own = [next(rows) for _ in item.sampling]
        after_drafts = [next(rows) for _ in item.draft_token_ids]
        if not item.draft_token_ids or isinstance(own[0][1], SamplingError):
            without_drafts += own
        else:
            verified.append(Verified(item, _final([*own, *after_drafts], item.draft_token_ids)))
    return without_drafts, verified


def _final(rows: list[Drawn], drafts: list[int]) -> list[Drawn]:
    """Return the rows whose tokens are final: as many as the accepted drafts, and one more.

    rows: one more than drafts; the first is the sequence's own and has no error

    A row with an error ends them: the error comes again in the next step, in the sequence's own
    row.
    """
    final = [rows[0]]
    for draft, row in zip(drafts, rows[1:], strict=True):
        if final[-1][1].token_id != draft or isinstance(row[1], SamplingError):
            break
        final.append(row)
    return final


def roll_back(item: ScheduledDrafts, num_accepted: int, manager: KVCacheManager) -> None:
    """Note how many drafts were accepted, and make the sequence forget the others.

    The schedule counted all drafts as computed. The accepted ones stay computed. Blocks that
    hold only rejected drafts are released. No token is appended here.
    """
    sequence = item.sequence
    item.num_accepted = num_accepted
    sequence.num_computed_tokens -= len(item.draft_token_ids) - num_accepted
    manager.shrink(sequence, sequence.num_computed_tokens)
