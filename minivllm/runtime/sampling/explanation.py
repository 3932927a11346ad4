"""`explain`: why the sampler chose a token, stage by stage.

    model's logits > mask, bias, penalties > temperature > min-p, top-k, top-p > race > token

Called after the draw, for watched sequences only, with the same logits. A draw has no state (see
`rng`), so the race can be run again, and explaining cannot change a token.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import torch

from minivllm.core.request import Sequence
from minivllm.runtime.sampling.logits_processors import (
    apply_logits_processors,
    changes_best_token,
    to_weights,
)
from minivllm.runtime.sampling.rng import exponentials, key_for_next_token
from minivllm.runtime.sampling.sampler import best_token_ids

NUM_BEST = 8
"""How many tokens to show: the most likely ones after mask, bias and penalties."""
_NUM_BEST_OF_MODEL = 3
"""If mask, bias or penalties apply, also show as many that the model itself finds most likely."""

CutName = Literal["min_tokens", "min_p", "top_k", "top_p"]
CutBy = Literal["min_tokens", "min_p", "top_k", "top_p", "rounding"]


@dataclass(frozen=True, slots=True)
class Cut:
    """A stage that removes tokens."""

    name: CutName
    value: float
    """The request's sampling parameter of this name."""
    num_left: int
    """How many tokens of the vocabulary are left after this stage."""


@dataclass(frozen=True, slots=True)
class CandidateStages:
    """A token that could have been chosen, at each stage."""

    token_id: int
    logit: float
    """The model's logit."""
    processed_logit: float | None
    """The logit after bias and penalties; None if the token is masked."""
    probability: float
    """The model's probability, from `logit` alone."""
    tempered_probability: float
    """The probability after mask, bias, penalties and temperature. Greedy: without temperature."""
    final_probability: float
    """The probability after all cuts; 0 if the token was cut. Greedy: 1 for the best token."""
    cut_by: CutBy | None
    """The stage that removed the token. `rounding`: its weight was rounded to 0."""
    draw: float | None
    """Random number, exponentially distributed with mean 1. The token with the smallest draw /
    final_probability wins. None if the token takes no part in a draw.
    """


@dataclass(frozen=True, slots=True)
class Explanation:
    candidates: list[CandidateStages]
    """The chosen token, the second of the race and the most likely tokens, most likely first."""
    cuts: list[Cut]
    """The stages that removed tokens, in order; only those that the request uses."""
    num_left: int
    """How many tokens took part in the draw; 1 for greedy sampling."""
    vocab_size: int


def explain(
    logits: torch.Tensor,
    sequence: Sequence,
    token_id: int,
    eos_token_ids: Collection[int],
    engine_seed: int,
) -> Explanation:
    """Explain why `token_id` was sampled from `logits: [vocab]`.

    The sequence must not have the token yet. `eos_token_ids`, `engine_seed`: as for `Sampler`.
    """
    params = sequence.request.params
    processed = logits
    if changes_best_token(sequence):
        processed = apply_logits_processors(logits, sequence, eos_token_ids)
    relative = processed.double() - processed.max()
    tempered = (relative if params.greedy else relative / params.temperature).softmax(dim=-1)
    weights, key = torch.zeros_like(tempered), None
    if params.greedy:
        weights[token_id] = 1.0
    else:
        weights = to_weights(processed.unsqueeze(0), [params])[0]
        key = torch.tensor([key_for_next_token(sequence, engine_seed)], device=weights.device)

    ids = torch.tensor(
        _candidate_ids(logits, processed, weights, key, token_id), device=logits.device
    )
    log_total = logits.double().logsumexp(dim=-1)
    rows = torch.stack(  # [num_candidates, 6]
        (
            logits[ids].double(),
            processed[ids].double(),
            (logits[ids].double() - log_total).exp(),
            tempered[ids],
            weights[ids] / weights.sum(),
            torch.zeros_like(weights[ids]) if key is None else exponentials(key, ids)[0],
        ),
        dim=-1,
    ).tolist()
    stages = _Stages(sequence, processed, tempered, int(weights.count_nonzero()))
    candidates = [
        CandidateStages(
            candidate_id,
            logit,
            None if processed_logit == -torch.inf else processed_logit,
            probability,
            tempered_probability,
            final,
            stages.cut_by(candidate_id, tempered_probability) if final == 0.0 else None,
            draw if key is not None and final > 0.0 else None,
        )
        for candidate_id, (
            logit, processed_logit, probability, tempered_probability, final, draw,
        ) in zip(ids.tolist(), rows, strict=True)
        if logit > -torch.inf
    ]  # fmt: skip
    return Explanation(candidates, stages.cuts(), stages.num_left, len(logits))


def _candidate_ids(
    logits: torch.Tensor,
    processed: torch.Tensor,
    weights: torch.Tensor,
    key: torch.Tensor | None,
    token_id: int,
) -> list[int]:
    """Return the token ids to show, most likely first. All tensors but `key: [1]` are `[vocab]`."""
    chosen = {token_id, *best_token_ids(processed, NUM_BEST)}
    if processed is not logits:
        chosen.update(best_token_ids(logits, _NUM_BEST_OF_MODEL))
    if key is not None:
        kept = weights.nonzero().squeeze(-1)
        race = weights[kept] / exponentials(key, kept)[0]
        chosen.update(kept[race.topk(min(2, len(kept))).indices].tolist())
    ids = sorted(chosen)
    scores = dict(zip(ids, processed[ids].tolist(), strict=True))
    return sorted(ids, key=lambda candidate_id: -scores[candidate_id])


class _Stages:
    """The stages of one row that remove tokens."""

    def __init__(
        self, sequence: Sequence, processed: torch.Tensor, tempered: torch.Tensor, num_left: int
    ) -> None:
        """
        processed, tempered: [vocab], logits before and probabilities after temperature
        num_left: how many tokens have a weight in the end
        """
        self.num_left = num_left
        self._params = sequence.request.params
        self._masks = sequence.num_output_tokens < self._params.min_tokens
        self._processed, self._tempered = processed, tempered
        self._lowest = self._params.min_p * tempered.max()

    def cuts(self) -> list[Cut]:
        params, found = self._params, []
        if self._masks:
            num_left = int(self._processed.isfinite().sum())
            found.append(Cut("min_tokens", params.min_tokens, num_left))
        if params.greedy:
            return found
        if params.min_p > 0.0:
            num_left = int((self._tempered >= self._lowest).sum())
            found.append(Cut("min_p", params.min_p, num_left))
        if 0 < params.top_k < len(self._processed):
            num_left = min([params.top_k, *(cut.num_left for cut in found)])
            found.append(Cut("top_k", params.top_k, num_left))
        if params.top_p < 1.0:
            found.append(Cut("top_p", params.top_p, self.num_left))
        return found

    def cut_by(self, token_id: int, tempered_probability: float) -> CutBy | None:
        """Return the stage that removed a token whose weight is 0; None for greedy sampling."""
        params, processed = self._params, self._processed
        logit = processed[token_id]
        if logit == -torch.inf:
            return "min_tokens"
        if params.greedy:
            return None
        if tempered_probability < self._lowest:
            return "min_p"
        rank = int((processed > logit).sum() + (processed[:token_id] == logit).sum())
        if 0 < params.top_k <= rank:
            return "top_k"
        return "top_p" if params.top_p < 1.0 and self.num_left <= rank else "rounding"
