"""`Watchers`: what a step shows to those who asked, as events.

    TokenNames      the text of each token id, once
    KernelTracer    what an attention kernel reads for one sequence
    TokenExplainer  why the sampler or a beam search chose a token
    attention       where the last tokens of a step look

A step calls `before` and `after` around the model, and `drawn` when it has its tokens. While nobody
watches, a call is one or two attribute tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

import msgspec

from minivllm import runtime
from minivllm.core.beam_search import Candidate, Continuation
from minivllm.core.request import Request, Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import InvalidRequestError, KernelTraceError, SamplingError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.events.state import SequenceGrammar
from minivllm.runtime.step_result import WATCH_NOTHING, DecodeSample, StepResult, TokenWatch, Watch
from minivllm.speculation.verify import Drawn, Verified
from minivllm.text import short_name

_MAX_DROPPED = 8
"""How many of the candidates that a beam search drops are in an event."""


class Watchers:
    def __init__(self, names: TokenNames, bus: EventBus, *, explain_all: bool) -> None:
        """explain_all: explain the tokens of every sequence (the option `explain_tokens`)"""
        self.tracer = KernelTracer(bus)
        self.explainer = TokenExplainer(names, bus, explain_all)
        self.attention: tuple[str | None, int | None, int | None] | None = None
        """Sequence, layer and head of `attention.tokens`; see `LLMEngine.record_attention_mass`."""
        self._bus = bus

    def before(self, plan: SchedulerOutput) -> Watch:
        """Return what the model shall record of the step."""
        if not (self._bus.active and (self.attention or self.tracer.asked)):
            return WATCH_NOTHING
        decodes = self.tracer.decodes_to_watch(plan)
        if self.attention is None:
            return Watch(decodes)
        seq_id, layer, head = self.attention
        names = [item.sequence.seq_id for item in plan.scheduled]
        index = names.index(seq_id) if seq_id in names else 0
        return Watch(decodes, True, TokenWatch(index, layer, head))

    def after(self, watch: Watch, result: StepResult) -> None:
        """Emit what the model has recorded."""
        if watch is WATCH_NOTHING:
            return
        if watch.attention_mass:
            for item, mass in zip(result.plan.scheduled, result.attention_mass, strict=True):
                self._bus.emit(ev.AttentionMass, item.sequence.seq_id, mass)
        if (found := result.token_attention) is not None:
            index, layer, head = found.watch
            weights = [round(weight, 6) for weight in found.weights]
            shape = (layer, head, found.num_layers, found.num_heads)
            seq_id = result.plan.scheduled[index].sequence.seq_id
            self._bus.emit(ev.TokenAttention, seq_id, weights, *shape)
        if any(result.tokens_per_expert):
            self._bus.emit(ev.ExpertsRouted, result.tokens_per_expert)
        # A plan that ran in pieces has no samples; the tracer asks again in the next step.
        for index, sample in zip(watch.decodes, result.decode_samples, strict=False):
            self.tracer.trace(result.plan.scheduled[index].sequence, sample)

    def drawn(self, tokens: list[Drawn], verified: list[Verified]) -> None:
        """Emit the explanations of tokens that are not appended yet, those of drafts last."""
        if self.explainer.active:
            self.explainer.explain(tokens + [row for item in verified for row in item.rows])

    def forget_ended(self) -> None:
        """Forget the sequences that have ended. One that waited for a trace gets the reason."""
        self.tracer.forget_ended()
        if self.explainer.active:
            self.explainer.forget_ended()


class TokenNames:
    """Emits the text of each token id once, while a listener watches: views show words, not ids."""

    def __init__(self, decoder: runtime.Tokenizer, bus: EventBus) -> None:
        self._decoder, self._bus = decoder, bus
        self.pieces: dict[int, str] = {}
        """The text of each token id that the listeners know."""

    def name(self, token_ids: Iterable[int]) -> None:
        """Emit the ids that have no name yet. Call this before emitting an event with the ids."""
        new = [token_id for token_id in dict.fromkeys(token_ids) if token_id not in self.pieces]
        if new:
            pieces = {token_id: self._piece(token_id) for token_id in new}
            self.pieces |= pieces
            self._bus.emit(ev.TokensNamed, pieces)

    def catch_up(self, requests: Mapping[str, Request]) -> None:
        """Before the first listener subscribes, name the tokens of the unfinished `requests`."""
        if not self._bus.active:
            self.pieces = {
                token_id: self._piece(token_id)
                for request in requests.values()
                for sequence in request.sequences
                for token_id in dict.fromkeys(sequence.token_ids)
            }

    def _piece(self, token_id: int) -> str:
        try:
            return self._decoder.piece(token_id)
        # A token without a text fails its request when the text is due, not because of a view.
        except Exception:
            return ""


def _unfinished(seq_id: str, requests: Mapping[str, Request]) -> Sequence:
    request = requests.get(seq_id.rpartition(".")[0])
    for sequence in () if request is None else request.sequences:
        if sequence.seq_id == seq_id and not sequence.is_finished:
            return sequence
    name = short_name(seq_id)
    raise InvalidRequestError(f"There is no unfinished sequence {name!r}: choose a running one.")


class KernelTracer:
    """Traces what an attention kernel reads for one sequence.

        ask("a.0")  ->  next decode of a.0: the runner keeps one layer's queries, keys and values
                    ->  the kernel `decode_grouped` runs on them in Triton's interpreter, which
                        records every read

    So the trace (x-ray) shows the engine's own data, with any attention backend. The engine waits
    for it, up to a few seconds, so that the event's place in a recording does not depend on speed.
    Without Triton, the event has a trace that ships with minivllm. For each sequence asked for,
    exactly one event follows, if need be with the reason for no trace.
    """

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        # Keep objects, not ids: a later request can have the id of a finished one.
        self.asked: list[Sequence] = []

    def ask(self, seq_id: str, requests: Mapping[str, Request]) -> None:
        """Trace a sequence's next decode. `InvalidRequestError` if it is unknown or has ended."""
        sequence = _unfinished(seq_id, requests)
        if sequence not in self.asked:
            self.asked.append(sequence)

    def decodes_to_watch(self, plan: SchedulerOutput) -> tuple[int, ...]:
        """Indices into `plan.scheduled` of the decodes to trace."""
        decodes = [item.sequence if item.kind == "decode" else None for item in plan.scheduled]
        return tuple(decodes.index(sequence) for sequence in self.asked if sequence in decodes)

    def trace(self, sequence: Sequence, sample: DecodeSample) -> None:
        found, programs, problem, recorded = sample, [], None, None
        if find_spec("triton") is None:
            found = runtime.recorded_trace(sample)
            programs, recorded = found.programs, found.of
        else:
            try:
                programs = runtime.trace_decode(sample)
            except KernelTraceError as error:
                problem = str(error)
        programs = msgspec.convert(programs, list[ev.TracedProgram], from_attributes=True)
        self._answer(sequence, found.layer, found.num_tokens, programs, problem, recorded)

    def forget_ended(self) -> None:
        """For each sequence that ended before its decode could be traced, emit the reason."""
        for ended in [sequence for sequence in self.asked if sequence.is_finished]:
            self._answer(ended, 0, 0, [], f"{ended.seq_id} ended before its next decode step.")

    def _answer(self, sequence: Sequence, *found: object) -> None:
        """Emit the event, with `found` as its other fields."""
        self.asked.remove(sequence)
        if self._bus.active:
            self._bus.emit(ev.KernelTraced, sequence.seq_id, *found)


class TokenExplainer:
    """Explains the tokens of watched sequences.

        watch("a.0")  ->  each step, after the draw: the sampler explains the token of a.0
                      ->  event `token.explained`, before the step's tokens

    The draw is over by then, so explaining cannot change it. If the engine runs phase by phase,
    there is another event before the draw: the candidates, without random numbers and a winner. A
    beam search is watched as a whole: its event has the candidates of all beams.
    """

    def __init__(self, names: TokenNames, bus: EventBus, explain_all: bool) -> None:
        self._names, self._bus = names, bus
        self.active = self._explain_all = explain_all
        """Whether some token may need an explanation."""
        self._watched: set[Sequence | Request] = set()
        """Sequences, and requests with a beam search."""
        self._grammars: dict[tuple[Request, int], SequenceGrammar] = {}
        """The last `grammar.state` of each sequence, by request and index."""

    def watch(self, seq_id: str, on: bool, requests: Mapping[str, Request]) -> None:
        """Start or stop explaining a sequence. `InvalidRequestError` if it is unknown or ended."""
        sequence = _unfinished(seq_id, requests)
        request = sequence.request
        target = request if request.params.use_beam_search else sequence
        (self._watched.add if on else self._watched.discard)(target)
        self.active = True

    def explained(self, sequences: list[Sequence]) -> set[Sequence]:
        """Return the sequences whose tokens the sampler must explain."""
        if not (self.active and self._bus.active):
            return set()
        chosen = sequences if self._explain_all else self._watched.intersection(sequences)
        # A beam search explains its own choice.
        return {sequence for sequence in chosen if not sequence.request.params.use_beam_search}

    def explain(self, tokens: list[Drawn], is_preview: bool = False) -> None:
        """Emit why tokens were drawn that are not appended yet; or, as a preview of a draw that is
        still to come, its candidates.
        """
        for sequence, token in tokens:
            if not isinstance(token, SamplingError) and (found := token.explanation) is not None:
                shown = (None, found.before_the_draw()) if is_preview else (token.token_id, found)
                self._emit(sequence, *shown)

    def _emit(self, sequence: Sequence, token_id: int | None, found: runtime.Explanation) -> None:
        self._names.name([candidate.token_id for candidate in found.candidates])
        if found.grammar is not None:
            self._show_grammar(sequence, found.grammar)
        what = sequence.seq_id, sequence.num_tokens, token_id, sequence.request.params.temperature
        shown = found.vocab_size, found.num_left, tuple(found.candidates), tuple(found.cuts)
        self._bus.emit(ev.TokenExplained, *what, *shown)

    def grammar_of(self, sequence: Sequence) -> SequenceGrammar | None:
        """Return what the grammar of a watched sequence allowed last, if it has one."""
        return self._grammars.get((sequence.request, sequence.index))

    def _show_grammar(self, sequence: Sequence, grammar: SequenceGrammar) -> None:
        if self.grammar_of(sequence) == grammar:
            return  # the preview has shown it already
        self._grammars[sequence.request, sequence.index] = grammar
        if grammar.refused_token_id is not None:
            self._names.name([grammar.refused_token_id])
        self._bus.emit(ev.GrammarState, sequence.seq_id, *msgspec.structs.astuple(grammar))

    def watches_search(self, request: Request) -> bool:
        """Whether the next step of this beam search must be explained."""
        return self._bus.active and (self._explain_all or request in self._watched)

    def explain_beams(
        self,
        beams: list[Sequence],
        scores: dict[str, float],
        candidates: list[Candidate],
        chosen: list[Continuation],
        ended: list[list[int]],
    ) -> None:
        """Emit what a step of a beam search chose, before the `beams` get their tokens.

        ended: output tokens of the hypotheses that it found
        """
        outputs = {beam.seq_id: beam.output_token_ids for beam in beams}
        goes_on = {(candidate.beam, candidate.token_id) for candidate in chosen}
        ranked = []
        for beam, token_id, logprob in candidates:
            fate: ev.BeamFate = "dropped"
            if (beam, token_id) in goes_on:
                fate = "continues"
            elif [*outputs[beam], token_id] in ended:
                fate = "ends"
            score = scores.get(beam, 0.0) + logprob
            ranked.append(ev.BeamCandidate(beam, token_id, logprob, score, fate))
        ranked.sort(key=lambda candidate: -candidate.score)
        dropped = [candidate for candidate in ranked if candidate.fate == "dropped"][:_MAX_DROPPED]
        shown = [token for token in ranked if token.fate != "dropped" or token in dropped]
        best = next((candidate for candidate in shown if candidate.fate == "continues"), shown[0])
        self._names.name([candidate.token_id for candidate in shown])
        temperature = beams[0].request.params.temperature
        what = best.seq_id, beams[0].num_tokens, best.token_id, temperature
        self._bus.emit(ev.TokenExplained, *what, 0, 0, (), (), tuple(shown))

    def forget_ended(self) -> None:
        """Forget sequences and requests that have ended."""
        self._watched = {sequence for sequence in self._watched if not sequence.is_finished}
        for key in [key for key in self._grammars if key[0].is_finished]:
            del self._grammars[key]
        self.active = bool(self._explain_all or self._watched or self._grammars)
