"""`inspect_engine`: copies the engine's state from its own objects, block by block.

After every phase, this copy must equal the state that `Fold` builds from events alone. So this file
reads no events, keeps no counters and remembers nothing between calls.
"""

from collections.abc import Callable, Mapping

import msgspec

from minivllm.core.block_pool import KVCacheBlock, short_hash
from minivllm.core.request import Request, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events.state import (
    BlockState,
    EngineState,
    RequestState,
    ScheduledState,
    SequenceGrammar,
    SequenceState,
)
from minivllm.events.types import RequestSampling


def inspect_engine(
    scheduler: Scheduler,
    last_plan: SchedulerOutput | None,
    visible_text: Callable[[Sequence], str],
    grammar_of: Callable[[Sequence], SequenceGrammar | None],
    token_pieces: Mapping[int, str],
) -> EngineState:
    """Copy all state that a view may show. O(blocks + tokens): for tests and for starting views."""
    pool = scheduler.kv_cache_manager.pool
    sequences = [
        sequence
        for request in scheduler.requests.values()
        for sequence in request.sequences
        if not sequence.status.is_finished
    ]
    scheduled = [] if last_plan is None else last_plan.scheduled
    return EngineState(
        step=scheduler.step,
        blocks=[_block_state(block) for block in pool.blocks],
        free_queue=pool.free_queue.ids(),
        waiting=[sequence.seq_id for sequence in scheduler.waiting],
        running=[sequence.seq_id for sequence in scheduler.running],
        requests={
            request.request_id: _request_state(request) for request in scheduler.requests.values()
        },
        sequences={
            sequence.seq_id: _sequence_state(sequence, visible_text(sequence), grammar_of(sequence))
            for sequence in sequences
        },
        budget=0 if last_plan is None else last_plan.budget,
        scheduled=[
            ScheduledState(
                item.sequence.seq_id,
                item.num_tokens,
                item.kind,
                item.start,
                list(item.draft_token_ids),
                item.num_accepted,
            )
            for item in scheduled
        ],
        max_num_seqs=scheduler.slots.limit,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        counters=msgspec.structs.replace(
            scheduler.counters,
            evicted_blocks=pool.num_evicted_blocks,
            copied_blocks=scheduler.kv_cache_manager.num_copied_blocks,
        ),
        token_pieces=dict(token_pieces),
    )


def _block_state(block: KVCacheBlock) -> BlockState:
    return BlockState(
        ref_cnt=block.ref_cnt,
        hash=None if block.block_hash is None else short_hash(block.block_hash),
        parent=None if block.parent_hash is None else short_hash(block.parent_hash),
    )


def _request_state(request: Request) -> RequestState:
    return RequestState(
        prompt_token_ids=list(request.prompt_token_ids),
        max_tokens=request.params.max_tokens,
        priority=request.priority,
        prompt=request.prompt,
        arrival_time=request.arrival_time,
        seq_ids=[
            sequence.seq_id for sequence in request.sequences if not sequence.status.is_finished
        ],
        sampling=RequestSampling.of(request.params),
    )


def _sequence_state(
    sequence: Sequence, text: str, grammar: SequenceGrammar | None
) -> SequenceState:
    return SequenceState(
        request_id=sequence.request.request_id,
        status=sequence.status.name,
        num_prompt_tokens=sequence.num_prompt_tokens,
        output_token_ids=list(sequence.output_token_ids),
        text=text,
        num_computed_tokens=sequence.num_computed_tokens,
        num_cached_tokens=sequence.num_cached_tokens,
        num_preemptions=sequence.num_preemptions,
        slot=sequence.slot,
        block_table=[block.block_id for block in sequence.block_table],
        deferred=sequence.deferred,
        grammar=grammar,
    )
