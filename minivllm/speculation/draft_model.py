"""`DraftModelProposer`: a small model drafts for a large one.

The draft model has its own KV cache, with as many blocks as the large model's, and its own runner.
For each sequence it keeps a *mirror*: a sequence with the same tokens and other blocks.

    sequence   the cat sat on          mirror  the cat sat on
                                       step 1  the cat sat on mat         the mirror drafts 2 tokens
                                       step 2  the cat sat on mat and
    final      the cat sat on mat .    next    the cat sat on mat .       `and` is rolled back

A mirror has the request and the index of its sequence, so the draft model draws with the same
random numbers as the large model, at any temperature. If no block is free for a mirror, its
sequence gets no draft.
"""

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import replace

import torch

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput
from minivllm.errors import ConfigError
from minivllm.events.bus import EventBus
from minivllm.outputs import SampledToken
from minivllm.runtime.loader import LoadedModel, load_model
from minivllm.runtime.model_runner import ModelRunner
from minivllm.speculation.proposers import Draft, Proposer, Wanted


class _Mirror(Sequence):
    """A sequence of the draft model."""

    def __init__(self, sequence: Sequence, slot: int) -> None:
        super().__init__(sequence.request, sequence.index, [])
        self.slot = slot
        self.num_common = 0
        """How many tokens it certainly has in common with its sequence."""

    def catch_up(self, token_ids: list[int]) -> None:
        """Take over the sequence's tokens, and forget drafts that were rejected."""
        common = self.num_common
        while common < self.num_tokens and self.token_ids[common] == token_ids[common]:
            common += 1
        self.token_ids[common:] = token_ids[common:]
        self.num_tokens = self.num_common = len(token_ids)
        # The last token's row predicts the first draft, so it is computed in any case.
        self.num_computed_tokens = min(self.num_computed_tokens, common, self.num_tokens - 1)


class DraftModelProposer:
    def __init__(self, config: EngineConfig, runner: ModelRunner) -> None:
        bus = EventBus(MonotonicClock())  # without listeners
        self._runner, self._budget = runner, config.max_num_batched_tokens
        pool = BlockPool(runner.num_blocks, bus)
        self._manager = KVCacheManager(pool, config.block_size, False, bus)
        self._free_slots = list(range(config.max_num_seqs))
        self._mirrors: dict[Sequence, _Mirror] = {}
        """The one that drafted last is last."""

    def forget(self, sequence: Sequence) -> None:
        """See `Proposer.forget`."""
        mirror = self._mirrors.pop(sequence, None)
        if mirror is not None:
            self._manager.free(mirror)
            self._free_slots.append(mirror.slot)

    def propose(self, wanted: Seq[Wanted]) -> list[Draft]:
        """See `Proposer.propose`. Runs the draft model once for each token, for all sequences."""
        busy = {want.sequence for want in wanted}
        drafting: dict[_Mirror, int] = {}
        for sequence, num_tokens in wanted:
            mirror = self._mirror_of(sequence)
            mirror.catch_up(sequence.token_ids)
            # The last draft is not computed, so it needs no slot.
            room = self._runner.max_model_len - mirror.num_tokens + 1
            num_tokens = min(num_tokens, room)
            if num_tokens > 0 and self._allocate(mirror, num_tokens, busy):
                drafting[mirror] = mirror.num_tokens + num_tokens
        while drafting:
            self._run(drafting)
        return [
            Draft(self._mirrors[want.sequence].token_ids[want.sequence.num_tokens :], "draft_model")
            for want in wanted
        ]

    def _mirror_of(self, sequence: Sequence) -> _Mirror:
        mirror = self._mirrors.pop(sequence, None) or _Mirror(sequence, self._free_slots.pop())
        self._mirrors[sequence] = mirror
        return mirror

    def _allocate(self, mirror: _Mirror, num_tokens: int, busy: Iterable[Sequence]) -> bool:
        """Give `mirror` the blocks for its drafts, if need be those of mirrors that draft nothing
        now. Return whether there were enough.
        """
        end = mirror.num_tokens + num_tokens - 1
        idle = [sequence for sequence in self._mirrors if sequence not in busy]
        while self._manager.allocate_slots(mirror, end) is not None:
            if not idle:
                return False
            self.forget(idle.pop(0))
        return True

    def _run(self, drafting: dict[_Mirror, int]) -> None:
        """Run one step of the draft model for `drafting`: mirror -> number of tokens that it shall
        have. Remove the mirrors that are complete.
        """
        plan = SchedulerOutput(0, self._budget)
        left = self._budget
        for mirror in drafting:
            start = mirror.num_computed_tokens
            num_tokens = min(mirror.num_tokens - start, left)
            if num_tokens == 0:
                break
            item = ScheduledSequence(mirror, start, num_tokens)
            mirror.num_computed_tokens += num_tokens
            if mirror.num_computed_tokens == mirror.num_tokens:
                item.sampling.append(mirror)
            plan.scheduled.append(item)
            left -= num_tokens
        plan.total_num_scheduled_tokens = self._budget - left
        sampling = plan.sampling_sequences()
        result = self._runner.execute_model(plan)
        sampled = self._runner.sample_tokens(sampling, result.logits)
        for mirror, token in zip(sampling, sampled, strict=True):
            # Without a token (the logits are NaN), the draft ends early.
            if isinstance(token, SampledToken):
                mirror.append_token(token.token_id)
            if not isinstance(token, SampledToken) or mirror.num_tokens == drafting[mirror]:
                del drafting[mirror]


def load_draft_model(config: EngineConfig, model: LoadedModel) -> LoadedModel:
    """Load the draft model that `config` names; `model` itself if it has the same name.

    Raises `ConfigError` if its vocabulary is another one, or if it has more or fewer embeddings.
    """
    name = config.speculative_config.model
    if name == model.name:
        return model
    own = replace(config, model=name, speculative_config=None)
    draft = load_model(own, keep_quantized=True)
    if not draft.tokenizer.has_vocabulary_of(model.tokenizer):
        raise ConfigError(
            f"speculative_config: the draft model {name} has another vocabulary than {model.name}:"
            " choose a draft model of the same family."
        )
    own, theirs = draft.config.vocab_size, model.config.vocab_size
    if own != theirs:  # checkpoints pad their embeddings
        raise ConfigError(
            f"speculative_config: the draft model {name} has embeddings for {own} tokens and"
            f" {model.name} for {theirs}: choose a draft model with as many."
        )
    return draft


def create_draft_proposer(
    config: EngineConfig, draft: LoadedModel, runner: ModelRunner
) -> Proposer:
    """Allocate the draft model's KV cache, with as many blocks as `runner` has for the model, or
    raise `ConfigError`.
    """
    limit = min(runner.max_model_len, draft.config.max_position_embeddings)
    # With its drafts all accepted, a draft model computes two tokens in its next step. It keeps
    # `speculative_config`, so that this step may be a CUDA graph too.
    own = replace(
        config, model=draft.name, num_gpu_blocks_override=runner.num_blocks, max_model_len=limit
    )
    try:
        draft_runner = ModelRunner(own, draft)
    except torch.OutOfMemoryError:
        raise ConfigError(
            f"speculative_config: too little memory for the {runner.num_blocks} blocks of the draft"
            f" model {draft.name}: lower num_gpu_blocks_override or gpu_memory_utilization."
        ) from None
    return DraftModelProposer(config, draft_runner)
