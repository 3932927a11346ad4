"""`SpeculativeScheduler`: a scheduler that fills what is left of a step with drafts.

The plan is made as without drafts. Only then do decodes get drafts, from the budget and the blocks
that are left. So drafts never preempt a sequence, never delay an admission and never shorten a
chunk of a prompt.

    schedule   plan the step, then draft: budget 64 - 3 decodes - 40 prompt tokens = up to 21 drafts
    execute    a decode with k drafts computes 1 + k tokens
    sample     keep the drafts that equal the drawn tokens; roll `num_computed_tokens` back

A draft needs at most one block more, since it is never longer than a block. After the verification,
a block without final tokens is given back, so a block table never holds more than final tokens
need. Only final tokens are hashed: a block that accepted drafts filled gets its hash in the next
step of its sequence.

Source: vLLM `vllm/v1/core/sched/scheduler.py` (`spec_token_ids`), where drafts come before waiting
requests.
"""

from collections.abc import Callable, Iterable

from minivllm.core.request import RequestStatus, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput
from minivllm.events import types as ev
from minivllm.speculation.base import Draft, Proposer, Wanted
from minivllm.speculation.draft_lengths import DraftLengths
from minivllm.speculation.verify import roll_back


class SpeculativeScheduler(Scheduler):
    def __init__(
        self, *args: object, proposer: Proposer, num_speculative_tokens: int, **options: object
    ) -> None:
        super().__init__(*args, **options)
        self.name_tokens: Callable[[Iterable[int]], None] = lambda token_ids: None
        """Emits the texts of tokens that no event has had yet; set by the engine."""
        self._proposer = proposer
        self._lengths = DraftLengths(num_speculative_tokens)

    def finish(
        self, sequence: Sequence, status: RequestStatus, stop_reason: int | str | None = None
    ) -> None:
        super().finish(sequence, status, stop_reason)
        self._proposer.forget(sequence)
        self._lengths.forget(sequence)

    def _preempt(self, victim: Sequence, *reason: object) -> None:
        super()._preempt(victim, *reason)
        self._proposer.forget(victim)

    def _spend_budget(self, plan: SchedulerOutput, now: float) -> int:
        budget = super()._spend_budget(plan, now)
        drafting = self._choose_drafting(plan, budget) if budget else []
        wanted = [
            Wanted(plan.scheduled[index].sequence, num_tokens) for index, num_tokens in drafting
        ]
        drafts = self._proposer.propose(wanted) if wanted else []
        for (index, _), draft in zip(drafting, drafts, strict=True):
            if draft.token_ids:
                self._add_draft(plan, index, draft)
        return budget - plan.num_draft_tokens

    def _choose_drafting(self, plan: SchedulerOutput, budget: int) -> list[tuple[int, int]]:
        """Return the decodes that may have drafts, as indices into the plan, and the greatest
        number of drafts of each.

        Together the drafts fit into `budget` and the free blocks.
        """
        drafting = []
        num_rows = plan.budget - budget
        num_free = self.kv_cache_manager.pool.num_free_blocks
        for index, item in enumerate(plan.scheduled):
            if item.kind != "decode" or not item.sampling:
                continue
            sequence = item.sequence
            num_tokens = min(
                self._lengths.wanted(sequence, self.step, num_rows),
                budget,
                # With all drafts accepted, the step gives one token more.
                sequence.request.params.max_tokens - sequence.num_output_tokens - 1,
                self.max_model_len - sequence.num_tokens - 1,
            )
            room = len(sequence.block_table) * self.kv_cache_manager.block_size
            room -= sequence.num_computed_tokens
            if num_tokens > room:
                if num_free:
                    num_free -= 1
                else:
                    num_tokens = room
            if num_tokens > 0:
                drafting.append((index, num_tokens))
                budget -= num_tokens
                num_rows += num_tokens
        return drafting

    def _add_draft(self, plan: SchedulerOutput, index: int, draft: Draft) -> None:
        item, num_drafts = plan.scheduled[index], len(draft.token_ids)
        sequence = item.sequence
        if self._bus.active:
            self.name_tokens(draft.token_ids)
            self._bus.emit(ev.DraftProposed, sequence.seq_id, *draft)
        plan.scheduled[index] = ScheduledDrafts(
            sequence,
            item.start,
            item.num_tokens + num_drafts,
            item.starts_fresh,
            item.kind,
            item.sampling,
            draft.token_ids,
        )
        plan.num_draft_tokens += num_drafts
        self.kv_cache_manager.allocate_slots(sequence, sequence.num_computed_tokens + num_drafts)
        sequence.num_computed_tokens += num_drafts

    def settle_draft(self, item: ScheduledDrafts, num_accepted: int, token_id: int) -> None:
        """Roll the rejected drafts of `item` back. The accepted tokens are not appended yet.

        token_id: the model's own token after the accepted drafts
        """
        sequence, num_drafts = item.sequence, len(item.draft_token_ids)
        if self._bus.active:
            self.name_tokens((token_id,))
            self._bus.emit(ev.DraftVerified, sequence.seq_id, num_accepted, token_id)
        roll_back(item, num_accepted, self.kv_cache_manager)
        self._lengths.verified(sequence, self.step, num_drafts, num_accepted)
        self.counters.spec_decode_num_drafts += 1
        self.counters.spec_decode_num_draft_tokens += num_drafts
        self.counters.spec_decode_num_accepted_tokens += num_accepted
