"""`TokenExplainer`: explains the tokens of watched sequences, as events.

    watch("a.0")  ->  each step, after the draw: the sampler explains the token of a.0
                  ->  event `token.explained`, before the step's tokens

The draw is over when a token is explained, so explaining cannot change it. While nothing is
watched, a step costs two attribute tests.

If the engine runs phase by phase, there is another event before the draw: the candidates, without
random numbers and without a winner.

A beam search is watched as a whole, because its beams compete. The request's event then has the
candidates of all beams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from minivllm.core.beam_search import BeamSearch, Candidate, Continuation, Hypothesis
from minivllm.core.request import Request, Sequence
from minivllm.engine.watching.token_names import TokenNames
from minivllm.errors import InvalidRequestError, SamplingError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.events.state import SequenceGrammar
from minivllm.outputs import SampledToken

if TYPE_CHECKING:
    from minivllm.runtime.sampling.explanation import CandidateStages, Explanation

_MAX_DROPPED = 8
"""How many of the candidates that a beam search drops are in an event."""


class TokenExplainer:
    def __init__(self, names: TokenNames, bus: EventBus, *, explain_all: bool) -> None:
        """explain_all: watch every sequence"""
        self._names = names
        self._bus = bus
        self._explain_all = explain_all
        # Keep objects, not ids: a later request can have the id of a finished one.
        self._sequences: set[Sequence] = set()
        self._searches: set[Request] = set()
        self._grammars: dict[tuple[Request, int], SequenceGrammar] = {}
        """The last `grammar.state` of each sequence, by request and index."""
        self.active = explain_all
        """Whether something is watched. Check this before calling `explain`."""

    def watch(self, seq_id: str, on: bool, requests: Mapping[str, Request]) -> None:
        """Start or stop explaining a sequence. Raise `InvalidRequestError` if it is unknown."""
        request = requests.get(seq_id.rpartition(".")[0])
        sequences = () if request is None else request.sequences
        sequence = next((one for one in sequences if one.seq_id == seq_id), None)
        if sequence is None or sequence.status.is_finished:
            raise InvalidRequestError(
                f"There is no unfinished sequence {seq_id!r} to explain: choose a running one."
            )
        if request.params.use_beam_search:
            (self._searches.add if on else self._searches.discard)(request)
        else:
            (self._sequences.add if on else self._sequences.discard)(sequence)
        self._forget_ended()

    def watched(self, sequences: list[Sequence]) -> set[Sequence]:
        """Return the sequences whose tokens the sampler must explain."""
        if not self._bus.active:
            return set()
        return {
            one
            for one in sequences
            # A beam search explains its own choice.
            if not one.request.params.use_beam_search
            and (self._explain_all or one in self._sequences)
        }

    def explain(self, tokens: list[tuple[Sequence, SampledToken | SamplingError]]) -> None:
        """Emit the explanations of tokens that are not appended yet."""
        for sequence, token in tokens:
            if isinstance(token, SamplingError) or token.explanation is None:
                continue
            found = token.explanation
            self._emit(sequence, token.token_id, found, found.candidates)
        self._forget_ended()

    def preview(self, tokens: list[tuple[Sequence, SampledToken | SamplingError]]) -> None:
        """Emit the candidates of a draw that is still to come.

        tokens: what the draw is going to give; only what is known without the draw is emitted
        """
        from minivllm.runtime.sampling.explanation import NUM_BEST  # late, because of torch

        for sequence, token in tokens:
            if isinstance(token, SamplingError) or token.explanation is None:
                continue
            found = token.explanation
            # Behind the most likely tokens come the winner and the second; a masked one is neither.
            known = found.candidates[:NUM_BEST]
            known += [one for one in found.candidates[NUM_BEST:] if one.processed_logit is None]
            known = [one._replace(draw=None) for one in known]
            self._emit(sequence, None, found, known)

    def _emit(
        self,
        sequence: Sequence,
        token_id: int | None,
        found: Explanation,
        candidates: list[CandidateStages],
    ) -> None:
        self._names.name([one.token_id for one in candidates])
        if found.grammar is not None:
            self._show_grammar(sequence, SequenceGrammar(sequence.num_tokens, *found.grammar))
        self._bus.emit(
            ev.TokenExplained,
            sequence.seq_id,
            sequence.num_tokens,
            token_id,
            sequence.request.params.temperature,
            found.vocab_size,
            found.num_left,
            tuple(ev.TokenCandidate(*one) for one in candidates),
            tuple(ev.SamplingCut(*one) for one in found.cuts),
        )

    def grammar_of(self, sequence: Sequence) -> SequenceGrammar | None:
        """Return what the grammar of a watched sequence allowed last, if it has one."""
        return self._grammars.get((sequence.request, sequence.index))

    def _show_grammar(self, sequence: Sequence, grammar: SequenceGrammar) -> None:
        if self.grammar_of(sequence) == grammar:
            return  # the preview has shown it already
        self._grammars[sequence.request, sequence.index] = grammar
        refused = grammar.refused_token_id
        if refused is not None:
            self._names.name([refused])
        self._bus.emit(ev.GrammarState, sequence.seq_id, *msgspec.structs.astuple(grammar))

    def watches_search(self, request: Request) -> bool:
        """Whether the next step of this beam search must be explained."""
        return self.active and self._bus.active and (self._explain_all or request in self._searches)

    def explain_beams(
        self,
        beams: list[Sequence],
        candidates: list[Candidate],
        chosen: list[Continuation],
        search: BeamSearch,
        before: tuple[dict[str, float], list[Hypothesis]],
    ) -> None:
        """Emit what a step of a beam search chose.

        beams:  the live beams, still without the new tokens
        before: scores and hypotheses of the search before the step
        """
        scores, hypotheses = before
        outputs = {beam.seq_id: beam.output_token_ids for beam in beams}
        goes_on = {(one.beam, one.token_id) for one in chosen}
        ended = [one.token_ids for one in search.hypotheses if one not in hypotheses]
        ranked = []
        for one in candidates:
            fate: ev.BeamFate = "dropped"
            if (one.beam, one.token_id) in goes_on:
                fate = "continues"
            elif [*outputs[one.beam], one.token_id] in ended:
                fate = "ends"
            score = scores.get(one.beam, 0.0) + one.logprob
            ranked.append(ev.BeamCandidate(one.beam, one.token_id, one.logprob, score, fate))
        ranked.sort(key=lambda one: -one.score)
        dropped = [one for one in ranked if one.fate == "dropped"][:_MAX_DROPPED]
        shown = [one for one in ranked if one.fate != "dropped" or one in dropped]
        best = next((one for one in shown if one.fate == "continues"), shown[0])
        self._names.name([one.token_id for one in shown])
        position, temperature = beams[0].num_tokens, beams[0].request.params.temperature
        self._bus.emit(
            ev.TokenExplained,
            best.seq_id,
            position,
            best.token_id,
            temperature,
            0,
            0,
            (),
            (),
            tuple(shown),
        )

    def _forget_ended(self) -> None:
        self._sequences = {one for one in self._sequences if not one.status.is_finished}
        self._searches = {one for one in self._searches if not one.is_finished}
        ended = [key for key in self._grammars if key[0].is_finished]
        for key in ended:
            del self._grammars[key]
        self.active = bool(self._explain_all or self._sequences or self._searches)
