"""`BeamDriver`: carries out beam searches inside the engine.

`BeamSearch` (core) decides which beams continue. This class changes the sequences accordingly:

    chosen once      the beam gains its token
    chosen twice     the beam also forks, before it gains its token
    not chosen       the beam is pruned

Forks share all blocks. The beams of a request advance together, once all have offered candidates. A
preempted beam must first be recomputed, and then offers the same candidates again.
"""

from dataclasses import dataclass, field
from itertools import chain

from minivllm.core.beam_search import BeamSearch, Candidate, Continuation
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.engine.output_processor import OutputProcessor
from minivllm.engine.watchers import TokenExplainer, TokenNames
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.outputs import SampledToken


@dataclass(slots=True)
class BeamDriver:
    scheduler: Scheduler
    output_processor: OutputProcessor
    eos_token_ids: frozenset[int]
    names: TokenNames
    explainer: TokenExplainer
    bus: EventBus
    _searches: dict[str, BeamSearch] = field(default_factory=dict)
    _candidates: dict[str, list[Candidate]] = field(default_factory=dict)

    def start(self, request: Request) -> None:
        """Start the search of a request that is about to be queued."""
        params = request.params
        eos_token_ids = frozenset() if params.ignore_eos else self.eos_token_ids
        room = self.scheduler.max_model_len - len(request.prompt_token_ids)
        search = BeamSearch(
            width=params.num_sequences,
            max_tokens=min(params.max_tokens, room),
            eos_token_ids=eos_token_ids.union(params.stop_token_ids),
            length_penalty=params.length_penalty,
            early_stopping=params.early_stopping,
        )
        self._searches[request.request_id] = search
        request.num_logprobs = search.num_candidates

    def forget(self, request: Request) -> None:
        """Drop the search of a request and the candidates of its beams."""
        self._searches.pop(request.request_id, None)
        for sequence in request.sequences:
            self._candidates.pop(sequence.seq_id, None)

    def offer(self, sequence: Sequence, sampled: SampledToken) -> None:
        """Store one beam's best next tokens. When all beams have offered, advance the search."""
        # A beam that was preempted had offered before, so the search may have advanced already.
        if sequence.is_finished or sequence.num_computed_tokens < sequence.num_tokens:
            return
        seq_id = sequence.seq_id
        # The sampled token comes first and may not be among the best, so select by rank.
        ranked = sorted(sampled.logprobs.items(), key=lambda item: item[1].rank)
        best = ranked[: sequence.request.num_logprobs]
        self._candidates[seq_id] = [Candidate(seq_id, token, prob.logprob) for token, prob in best]
        beams = list(sequence.request.sequences)  # without pruned beams
        if all(self._is_ready(beam) for beam in beams):
            self._advance(sequence.request, beams)

    def _is_ready(self, beam: Sequence) -> bool:
        # A preempted beam may have candidates, but it must be recomputed before it can fork.
        runs, computed = beam.status is RequestStatus.RUNNING, beam.num_computed_tokens
        return runs and computed == beam.num_tokens and beam.seq_id in self._candidates

    def _advance(self, request: Request, beams: list[Sequence]) -> None:
        search = self._searches[request.request_id]
        offers = [self._candidates.pop(beam.seq_id) for beam in beams]
        candidates = list(chain.from_iterable(offers))
        scores, known = search.scores, list(search.hypotheses)
        chosen = search.advance(candidates, {beam.seq_id: beam.output_token_ids for beam in beams})
        if self.explainer.watches_search(request):
            ended = [found.token_ids for found in search.hypotheses if found not in known]
            self.explainer.explain_beams(beams, scores, candidates, chosen, ended)
        if search.done:
            self._finish(request, beams, search)
            return
        by_parent: dict[str, list[Continuation]] = {}
        for continuation in chosen:
            by_parent.setdefault(continuation.beam, []).append(continuation)
        # Prune first: the forks need the slots and blocks of the beams that end.
        for beam in beams:
            if beam.seq_id not in by_parent:
                self._prune(beam, search)
        search.scores = {}
        for beam in beams:
            continuations = by_parent.get(beam.seq_id, [])
            # Fork before the parent gains its own token; otherwise the forks would inherit it.
            heirs = [beam, *(self._fork(beam) for _ in continuations[1:])]
            for heir, continuation in zip(heirs, continuations, strict=False):
                self._append(heir, continuation)
                search.scores[heir.seq_id] = continuation.score

    def _fork(self, parent: Sequence) -> Sequence:
        child = self.scheduler.fork(parent)
        self.output_processor.fork(parent, child)
        return child

    def _prune(self, beam: Sequence, search: BeamSearch) -> None:
        ended = [found.token_ids for found in search.hypotheses if found.ended_by_token]
        last = next((ids[-1] for ids in ended if ids[:-1] == beam.output_token_ids), None)
        self.scheduler.finish(beam, RequestStatus.FINISHED_PRUNED, last)
        self.output_processor.forget(beam)

    def _append(self, beam: Sequence, continuation: Continuation) -> None:
        _, token_id, score = continuation
        beam.append_token(token_id)
        text = self.output_processor.append_beam_token(beam, token_id, score)
        self.scheduler.counters.generation_tokens += 1
        if self.bus.active:
            self.names.name((token_id,))
            self.bus.emit(ev.TokenSampled, beam.seq_id, token_id, text, score)

    def _finish(self, request: Request, beams: list[Sequence], search: BeamSearch) -> None:
        """End the search and all its beams. Its hypotheses become the output."""
        found = self.output_processor.set_beams_found(request, search.hypotheses)
        if self.bus.active:
            texts = [hypothesis.text for hypothesis in found]
            logprobs = [hypothesis.cumulative_logprob for hypothesis in found]
            self.bus.emit(ev.BeamsFound, beams[0].seq_id, texts, logprobs)
        stopped = search.hypotheses[0].ended_by_token
        status = RequestStatus.FINISHED_STOPPED if stopped else RequestStatus.FINISHED_LENGTH_CAPPED
        for beam in beams[1:]:
            self._prune(beam, search)
        self.scheduler.finish(beams[0], status)
        self.forget(request)
