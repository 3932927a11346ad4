"""Why a token was chosen: the candidates of a watched sequence, stage by stage."""

from typing import ClassVar, Literal

import msgspec

from minivllm.events.types.envelope import Event

CutName = Literal["structured_outputs", "min_tokens", "min_p", "top_k", "top_p"]
CutBy = Literal["structured_outputs", "min_tokens", "min_p", "top_k", "top_p", "rounding"]
BeamFate = Literal["continues", "ends", "dropped"]


class SamplingCut(msgspec.Struct, frozen=True, gc=False):
    """A stage of sampling that removed tokens."""

    name: CutName
    """The sampling parameter. `min_tokens` masks end tokens, a grammar what it refuses."""
    value: float
    """The parameter's value; 1 for `structured_outputs`."""
    num_left: int
    """How many tokens of the vocabulary were left after this stage."""


class TokenCandidate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A token that could have been chosen, after each stage of sampling."""

    token_id: int
    logit: float
    """The model's logit."""
    processed_logit: float | None
    """The logit after bias and penalties; None if the token is masked."""
    probability: float
    """The model's probability, from `logit` alone."""
    tempered_probability: float
    """The probability after mask, bias, penalties and temperature. Greedy: without temperature."""
    final_probability: float = 0.0
    """The probability after all cuts; 0 if the token was cut. Greedy: 1 for the chosen token."""
    cut_by: CutBy | None = None
    """The stage that removed the token. `rounding`: it is too unlikely for a draw."""
    draw: float | None = None
    """The token's random number, exponentially distributed with mean 1; None without a draw."""

    @property
    def arrival(self) -> float | None:
        """When the token arrives in the race: draw / final_probability. The earliest wins."""
        if self.draw is None or self.final_probability <= 0.0:
            return None
        return self.draw / self.final_probability


class BeamCandidate(msgspec.Struct, frozen=True, gc=False):
    """A beam with one more token, ranked by its score."""

    seq_id: str
    """The beam that offers the token."""
    token_id: int
    logprob: float
    """Log-probability of the token."""
    score: float
    """Log-probability of the beam with the token."""
    fate: BeamFate
    """`continues` as a beam, `ends` as one of the texts found, or is `dropped`."""


class TokenExplained(Event, tag="token.explained"):
    """Why a watched sequence gets the token `token_id`, or the candidates before the draw.

    Emitted before the tokens of the step; if the engine runs phase by phase, also before the phase
    `sample`, without `token_id` and random numbers. A token was drawn in a race: each token that
    was left arrived at draw / final_probability, and the earliest won. With `temperature` 0, the
    most likely token won without a draw. In a beam search there are `beams` in place of
    `candidates`, one event for all beams of the request.
    """

    seq_id: str
    """The sequence; in a beam search, the best beam that continues."""
    position: int
    """Index of the token in the sequence, prompt included, from 0."""
    token_id: int | None
    """The chosen token; in a beam search, the token of the best beam; None before the draw."""
    temperature: float
    """The request's temperature; 0 for greedy sampling."""
    vocab_size: int
    """How many tokens the model has logits for; 0 in a beam search."""
    num_left: int
    """How many tokens took part in the draw; 1 for greedy sampling, 0 in a beam search."""
    candidates: tuple[TokenCandidate, ...] = ()
    """The chosen token, the second of the race and the most likely tokens, most likely first."""
    cuts: tuple[SamplingCut, ...] = ()
    """The stages that removed tokens, in order; only those that the request uses."""
    beams: tuple[BeamCandidate, ...] = ()
    """Beam search: the candidates that continue or end, and the best of those dropped, best first.
    """
    rule: ClassVar[str] = "minivllm.engine.watchers:TokenExplainer._emit"

    @property
    def chosen(self) -> TokenCandidate | None:
        """The candidate that was chosen; None before the draw and in a beam search."""
        return next((token for token in self.candidates if token.token_id == self.token_id), None)

    @property
    def second(self) -> TokenCandidate | None:
        """Greedy: the second most likely candidate. Otherwise, the second of the race."""
        others = [candidate for candidate in self.candidates if candidate.token_id != self.token_id]
        if self.temperature > 0.0:
            racing = [candidate for candidate in others if candidate.arrival is not None]
            return min(racing, key=lambda candidate: candidate.arrival, default=None)
        allowed = [candidate for candidate in others if candidate.processed_logit is not None]
        return max(allowed, key=lambda candidate: candidate.processed_logit, default=None)
