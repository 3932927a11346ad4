"""`SpeculativeDrafter`: the scheduler's `Drafter`, which fills what is left of a step with drafts.

The plan is made as without drafts. Only then do decodes get drafts, from the budget and the blocks
that are left. So drafts never preempt a sequence, never delay an admission and never shorten a
chunk of a prompt.

    schedule   plan the step, then draft: budget 64 - 3 decodes - 40 prompt tokens = up to 21 drafts
    execute    a decode with k drafts computes 1 + k tokens
    sample     keep the drafts that equal the drawn tokens; roll `num_computed_tokens` back

A draft needs at most one block more. After the verification, a block without final tokens is given
back. Only final tokens are hashed: a block that accepted drafts filled gets its hash in the next
step of its sequence.

Source: vLLM `vllm/v1/core/sched/scheduler.py` (`spec_token_ids`), where drafts come before waiting
requests.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from minivllm.config import SpeculativeConfig
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import Drafter, ScheduledDrafts, SchedulerOutput
from minivllm.errors import ConfigError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.speculation.proposers import Draft, GrammarProposer, NgramProposer, Proposer, Wanted
from minivllm.speculation.verify import roll_back

CHEAP_ROWS = 12
"""Rows of a step that cost little, even with small weights."""
LIKELY = 0.5
POSSIBLE = 0.3
FAILURES_BEFORE_A_PAUSE = 2
LONGEST_PAUSE = 64
"""Steps without drafts, at most."""
_MEMORY = 0.8
"""Weight of the past when a draft is verified: about the last five drafts count."""


class SpeculativeDrafter(Drafter):
    def __init__(
        self,
        config: SpeculativeConfig,
        proposer: Proposer | None,
        manager: KVCacheManager,
        max_model_len: int,
        bus: EventBus,
        name_tokens: Callable[[Iterable[int]], None] = lambda token_ids: None,
    ) -> None:
        """proposer: None for the method `ngram`, which needs no model
        name_tokens: emits the texts of tokens that no event has had yet
        """
        if proposer is None and config.method != "ngram":
            raise ConfigError("speculative_config: draft_model needs LLMEngine.from_config.")
        self._proposer = GrammarProposer(
            proposer or NgramProposer(config.prompt_lookup_max, config.prompt_lookup_min)
        )
        self._lengths = DraftLengths(config.num_speculative_tokens)
        self._manager, self._max_model_len = manager, max_model_len
        self._bus, self._name_tokens = bus, name_tokens
        self._step = 0

    def add_drafts(self, plan: SchedulerOutput, budget: int) -> int:
        """See `Drafter.add_drafts`."""
        self._step = plan.step
        for victim in plan.preempted:
            self.forget(victim)
        wanted = self._choose_drafting(plan, budget) if budget else {}
        drafts = self._proposer.propose(list(wanted.values())) if wanted else []
        for index, draft in zip(wanted, drafts, strict=True):
            if draft.token_ids:
                self._add_draft(plan, index, draft)
        return budget - plan.num_draft_tokens

    def _choose_drafting(self, plan: SchedulerOutput, budget: int) -> dict[int, Wanted]:
        """Return the decodes that may have drafts, by their index in the plan.

        Together the drafts fit into `budget` and the free blocks.
        """
        drafting, block_size = {}, self._manager.block_size
        num_rows = plan.budget - budget
        num_free = self._manager.pool.num_free_blocks
        for index, item in enumerate(plan.scheduled):
            if item.kind != "decode" or not item.sampling:
                continue
            sequence = item.sequence
            num_tokens = min(
                self._lengths.wanted(sequence, plan.step, num_rows),
                budget,
                # With all drafts accepted, the step gives one token more.
                sequence.request.params.max_tokens - sequence.num_output_tokens - 1,
                self._max_model_len - sequence.num_tokens - 1,
            )
            room = len(sequence.block_table) * block_size - sequence.num_computed_tokens
            if num_tokens > room:
                if num_free:
                    num_free -= 1
                else:
                    num_tokens = room
            if num_tokens > 0:
                drafting[index] = Wanted(sequence, num_tokens)
                budget -= num_tokens
                num_rows += num_tokens
        return drafting

    def _add_draft(self, plan: SchedulerOutput, index: int, draft: Draft) -> None:
        item, num_drafts = plan.scheduled[index], len(draft.token_ids)
        sequence, labels = item.sequence, (item.starts_fresh, item.kind, item.sampling)
        if self._bus.active:
            self._name_tokens(draft.token_ids)
            self._bus.emit(ev.DraftProposed, sequence.seq_id, *draft)
        plan.scheduled[index] = ScheduledDrafts(
            sequence, item.start, item.num_tokens + num_drafts, *labels, draft.token_ids
        )
        plan.num_draft_tokens += num_drafts
        self._manager.allocate_slots(sequence, sequence.num_computed_tokens + num_drafts)
        sequence.num_computed_tokens += num_drafts

    def settle(self, item: ScheduledDrafts, num_accepted: int, token_id: int) -> None:
        """See `Drafter.settle`."""
        sequence = item.sequence
        if self._bus.active:
            self._name_tokens((token_id,))
            self._bus.emit(ev.DraftVerified, sequence.seq_id, num_accepted, token_id)
        roll_back(item, num_accepted, self._manager)
        self._lengths.verified(sequence, self._step, len(item.draft_token_ids), num_accepted)

    def forget(self, sequence: Sequence) -> None:
        """See `Drafter.forget`."""
        self._proposer.forget(sequence)
        if sequence.is_finished:  # a preempted sequence goes on drafting later
            self._lengths.forget(sequence)


@dataclass(slots=True)
class _Record:
    num_right: float = 2.0
    num_tried: float = 2.5
    """Drafts up to the first wrong one. In both sums, old steps have less weight."""
    num_failures: int = 0
    """Drafts rejected at their first token, in a row."""
    resumes_at: int = 0
    """No drafts before this step."""


class DraftLengths:
    """How many tokens to draft for each sequence, from what came of its last drafts.

    The row of a rejected draft goes through the model for nothing. A few rows cost nearly nothing,
    because the step must read all weights anyway. Further rows cost time (SmolLM2 on a CPU with
    float32 weights, time of a step over one row's):

        rows     1    5    9   16   32   80
        time   1.0  1.1  1.1  1.6  2.5  5.0

    So the j-th draft is computed only if all j drafts are probably right: with a probability of at
    least `LIKELY` if the step has many rows already, else of `POSSIBLE`. The probability is the
    j-th power of the share of the sequence's drafts that were right lately. A sequence whose drafts
    fail at once several times in a row pauses, for longer each time, and then tries one draft.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._records: dict[Sequence, _Record] = {}

    def wanted(self, sequence: Sequence, step: int, num_rows: int) -> int:
        """Return how many tokens to draft for `sequence` in this step; 0 while it pauses.

        num_rows: tokens that the step computes without these drafts
        """
        record = self._records.get(sequence) or _Record()
        if step < record.resumes_at:
            return 0
        length, rate = 0, record.num_right / record.num_tried
        probability = rate
        while length < self._longest and probability >= (
            POSSIBLE if num_rows + length < CHEAP_ROWS else LIKELY
        ):
            length += 1
            probability *= rate
        return max(length, 1)  # with no try, it would never learn that drafts are right again

    def verified(self, sequence: Sequence, step: int, num_drafts: int, num_accepted: int) -> None:
        """Learn from a verified draft."""
        record = self._records.setdefault(sequence, _Record())
        record.num_right = _MEMORY * record.num_right + num_accepted
        record.num_tried = _MEMORY * record.num_tried + min(num_accepted + 1, num_drafts)
        if num_accepted:
            record.num_failures = 0
            return
        record.num_failures += 1
        if record.num_failures >= FAILURES_BEFORE_A_PAUSE:
            record.resumes_at = step + 1 + min(2**record.num_failures, LONGEST_PAUSE)

    def forget(self, sequence: Sequence) -> None:
        self._records.pop(sequence, None)
