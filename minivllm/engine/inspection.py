"""For somebody who looks at an engine between two phases: its whole state, and a step in phases.

`inspect_engine` copies the state from the engine's own objects. After every phase, this copy must
equal the state that `Fold` builds from events alone. So it reads no events, keeps no counters and
remembers nothing between calls.
"""

import msgspec

from minivllm.core.block_pool import short_hash
from minivllm.core.request import Request, Sequence
from minivllm.engine.core import EngineCore
from minivllm.events import state
from minivllm.events.types import Phase, RequestSampling
from minivllm.outputs import RequestOutput
from minivllm.runtime.step_result import StepResult


class PhasedStep:
    """Runs a step one phase at a time: the three methods that `EngineCore.step` calls."""

    def __init__(self, core: EngineCore) -> None:
        self.next_phase: Phase = "schedule"
        self._core = core
        self._result: StepResult | None = None

    def run_phase(self, previews: bool = True) -> list[RequestOutput] | None:
        """Run the next phase. Returns the outputs if the step ends with this phase, else None."""
        core = self._core
        if self.next_phase == "schedule":
            core.schedule()
            self.next_phase = "execute"
        elif self.next_phase == "execute":
            self._result = core.execute(core.last_plan)
            self.next_phase = "sample"
            if previews:
                self._preview(self._result)
        else:
            outputs = core.sample(core.last_plan, self._result)
            self.next_phase = "schedule"
            return outputs
        return None if core.last_plan.scheduled else self.run_phase()  # an idle step has no phases

    def finish(self) -> list[RequestOutput]:
        """Run the rest of the step, without a preview."""
        outputs = self.run_phase(previews=False)
        return self.finish() if outputs is None else outputs

    def _preview(self, result: StepResult) -> None:
        """Emit the candidates of watched sequences. A draw has no state, so it can run twice."""
        explainer, sequences = self._core.watchers.explainer, result.plan.sampling_sequences()
        if explainer.explained(sequences):
            drawn = self._core.runner.sample_tokens(sequences, result.logits)
            # Rows after drafts may mean nothing, so preview only the sequences' own rows.
            rows = zip(sequences, drawn, strict=True)
            own = [row for row in rows if isinstance(row[0], Sequence)]
            explainer.explain(own, is_preview=True)


def inspect_engine(core: EngineCore) -> state.EngineState:
    """Copy all state that a view may show. O(blocks + tokens): for tests and for starting views."""
    scheduler, plan, pieces = core.scheduler, core.last_plan, core.names.pieces
    manager, pool = scheduler.kv_cache_manager, scheduler.kv_cache_manager.pool
    return state.EngineState(
        step=scheduler.step,
        blocks=[
            state.BlockState(block.ref_cnt, *map(short_hash, (block.block_hash, block.parent_hash)))
            for block in pool.blocks
        ],
        free_queue=pool.free_queue.ids(),
        waiting=[sequence.seq_id for sequence in scheduler.waiting],
        running=[sequence.seq_id for sequence in scheduler.running],
        requests={name: _request_state(request) for name, request in scheduler.requests.items()},
        sequences={
            sequence.seq_id: _sequence_state(core, sequence)
            for request in scheduler.requests.values()
            for sequence in _unfinished(request)
        },
        budget=0 if plan is None else plan.budget,
        scheduled=[
            state.ScheduledState(
                item.sequence.seq_id, item.num_tokens, item.kind, item.start,
                list(item.draft_token_ids), item.num_accepted,
            )
            for item in (plan.scheduled if plan else ())
        ],
        max_num_seqs=scheduler.slots.limit,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        counters=msgspec.structs.replace(
            scheduler.counters,
            evicted_blocks=pool.num_evicted_blocks,
            copied_blocks=manager.num_copied_blocks,
        ),
        token_pieces=dict(pieces),
        **(scheduler.connector.state() if scheduler.connector else {}),
    )  # fmt: skip


def _unfinished(request: Request) -> list[Sequence]:
    return [sequence for sequence in request.sequences if not sequence.is_finished]


def _request_state(request: Request) -> state.RequestState:
    return state.RequestState(
        prompt_token_ids=list(request.prompt_token_ids),
        max_tokens=request.params.max_tokens,
        priority=request.priority,
        prompt=request.prompt,
        arrival_time=request.arrival_time,
        seq_ids=[sequence.seq_id for sequence in _unfinished(request)],
        sampling=RequestSampling.of(request.params),
    )


def _sequence_state(core: EngineCore, sequence: Sequence) -> state.SequenceState:
    return state.SequenceState(
        request_id=sequence.request.request_id,
        status=sequence.status.name,
        num_prompt_tokens=sequence.num_prompt_tokens,
        output_token_ids=list(sequence.output_token_ids),
        text=core.output_processor.visible_text(sequence),
        num_computed_tokens=sequence.num_computed_tokens,
        num_cached_tokens=sequence.num_cached_tokens,
        num_preemptions=sequence.num_preemptions,
        slot=sequence.slot,
        block_table=[block.block_id for block in sequence.block_table],
        deferred=sequence.deferred,
        grammar=core.watchers.explainer.grammar_of(sequence),
    )
