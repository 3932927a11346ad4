"""`explain`: why the sampler chose a token, stage by stage.

    model's logits > masks, bias, penalties > temperature > min-p, top-k, top-p > race > token

Called by the sampler after the draw, for watched sequences only. It reads the tensors of the draw
and changes none, so explaining cannot change a token.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from msgspec import structs

from minivllm.core.request import Sequence
from minivllm.events.state import SequenceGrammar
from minivllm.events.types.explanations import CutBy, SamplingCut, TokenCandidate
from minivllm.sampling_params import SamplingParams

NUM_BEST = 8
"""How many tokens to show: the most likely ones after mask, bias and penalties."""
_NUM_BEST_OF_MODEL = 3
"""If mask, bias or penalties apply, also show the model's own best tokens, this many."""


@dataclass(frozen=True, slots=True)
class Explanation:
    candidates: list[TokenCandidate]
    """The chosen token, the second of the race and the most likely tokens, most likely first."""
    cuts: list[SamplingCut]
    """The stages that removed tokens, in order; only those that the request uses."""
    num_left: int
    """How many tokens took part in the draw; 1 for greedy sampling."""
    vocab_size: int
    grammar: SequenceGrammar | None = None

    def before_the_draw(self) -> "Explanation":
        """Return what was known before the draw: no random numbers, and no winner."""
        # Behind the most likely tokens come the winner and the second; a masked one is neither.
        known = self.candidates[:NUM_BEST]
        known += [more for more in self.candidates[NUM_BEST:] if more.processed_logit is None]
        return replace(self, candidates=[structs.replace(token, draw=None) for token in known])


class Race(NamedTuple):
    """The draw of one row: the token with the largest weight / random number won."""

    weights: torch.Tensor
    """[vocab], 0 for tokens that were cut."""
    token_ids: torch.Tensor
    """[num_candidates], ascending: all tokens with a weight, and perhaps others."""
    speeds: torch.Tensor
    """[num_candidates]: weight / random number."""


def explain(
    logits: torch.Tensor,
    processed: torch.Tensor | None,
    sequence: Sequence,
    token_id: int,
    race: Race | None,
) -> Explanation:
    """Explain why `token_id` was chosen. The sequence must not have the token yet.

    logits: [vocab], the model's; processed: after mask, bias and penalties; None if there are none
    race: the draw; None for greedy sampling
    """
    # For a single row, NumPy is several times faster than torch.
    raw = logits.numpy(force=True)
    allowed = raw if processed is None else processed.numpy(force=True)
    ids = {token_id, *_largest(allowed, NUM_BEST)}
    if sequence.request.grammar is not None:
        # It often leaves fewer tokens than that; then the others are any refused ones.
        ids = {token_id for token_id in ids if allowed[token_id] > -math.inf}
    if allowed is not raw:
        ids.update(_largest(raw, _NUM_BEST_OF_MODEL))
    final, draws, num_left = {token_id: 1.0}, {}, 1
    if race is not None:
        weights, racing, speeds = (column.numpy(force=True) for column in race)
        ids.add(_second(racing, speeds))
        drawn = [token_id for token_id in ids if weights[token_id]]
        left, num_left = weights[drawn], int(np.count_nonzero(speeds))
        final = dict(zip(drawn, (left / weights.sum()).tolist(), strict=True))
        draws = dict(zip(drawn, (left / speeds[racing.searchsorted(drawn)]).tolist(), strict=True))
    ids = list(ids)
    rows = list(zip(ids, raw[ids].tolist(), allowed[ids].tolist(), strict=True))
    rows.sort(key=lambda row: (-row[2], row[0]))  # most likely first

    params, highest, highest_raw = sequence.request.params, rows[0][2], float(raw.max())
    # A request with a grammar has no `min_tokens`.
    mask: CutBy = "min_tokens" if sequence.request.grammar is None else "structured_outputs"
    temperature = params.temperature or 1.0
    total = tempered_total = _log_total(raw, highest_raw)
    if allowed is not raw or temperature != 1.0:
        tempered_total = _log_total(allowed, highest, temperature)
    candidates = []
    for rank, (token, logit, processed_logit) in enumerate(rows):
        ratio, cut_by = (processed_logit - highest) / temperature, None
        if processed_logit == -math.inf:
            processed_logit, cut_by = None, mask
        elif race is not None and token not in final:
            num_better = rank if rank < NUM_BEST else int((allowed > processed_logit).sum())
            cut_by = _cut_by(params, num_better, math.exp(ratio), num_left)
        probability = math.exp(logit - highest_raw - total)
        tempered = math.exp(ratio - tempered_total)
        stages = probability, tempered, final.get(token, 0.0), cut_by, draws.get(token)
        if logit > -math.inf:  # otherwise, the model itself excludes the token
            candidates.append(TokenCandidate(token, logit, processed_logit, *stages))
    cuts, grammar = _cuts(sequence, allowed, highest, num_left), None
    if sequence.request.grammar is not None:
        grammar = _grammar_state(sequence.num_tokens, raw, allowed, highest_raw + total)
    return Explanation(candidates, cuts, num_left, len(raw), grammar)


def _grammar_state(
    position: int, raw: np.ndarray, allowed: np.ndarray, log_total: float
) -> SequenceGrammar:
    """log_total: the log of the sum of all e^logit of `raw`"""
    is_allowed = np.isfinite(allowed)
    refused = np.where(is_allowed, -np.inf, raw)
    best, num_allowed = int(refused.argmax()), int(is_allowed.sum())
    if refused[best] == -np.inf:
        return SequenceGrammar(position, num_allowed)
    probability = math.exp(float(refused[best]) - log_total)
    return SequenceGrammar(position, num_allowed, best, probability)


def _largest(row: np.ndarray, count: int) -> list[int]:
    """Return the indices of the `count` largest numbers of `row`, in any order."""
    return row.argpartition(-min(count, len(row)))[-count:].tolist()


def _second(token_ids: np.ndarray, speeds: np.ndarray) -> int:
    """Return the token that comes behind the winner of a race."""
    behind = speeds.copy()
    behind[speeds.argmax()] = -1.0
    return int(token_ids[behind.argmax()])


def _log_total(logits: np.ndarray, highest: float, temperature: float = 1.0) -> float:
    """Return the log of the sum of all probabilities, relative to that of the `highest` logit."""
    relative = logits - highest
    relative /= max(temperature, 1e-30)  # less is 0 in float32
    return math.log(np.exp(relative, out=relative).sum())


def _cuts(
    sequence: Sequence, allowed: np.ndarray, highest: float, num_left: int
) -> list[SamplingCut]:
    """Return the stages that removed tokens.

    allowed: [vocab], the logits after mask, bias and penalties; `highest` is the largest
    num_left: how many tokens have a weight in the end
    """
    params, found = sequence.request.params, []
    num_allowed = int(np.isfinite(allowed).sum())
    if sequence.request.grammar is not None:
        found.append(SamplingCut("structured_outputs", 1.0, num_allowed))
    if sequence.num_output_tokens < params.min_tokens:
        found.append(SamplingCut("min_tokens", params.min_tokens, num_allowed))
    if params.greedy:
        return found
    if params.min_p > 0.0:
        likely = allowed - highest >= params.temperature * math.log(params.min_p)
        found.append(SamplingCut("min_p", params.min_p, int(likely.sum())))
    if 0 < params.top_k < len(allowed):
        smallest = min([params.top_k, *(cut.num_left for cut in found)])
        found.append(SamplingCut("top_k", params.top_k, smallest))
    if params.top_p < 1.0:
        found.append(SamplingCut("top_p", params.top_p, num_left))
    return found


def _cut_by(params: SamplingParams, rank: int, ratio: float, num_left: int) -> CutBy:
    """Return the stage that removed a token without a weight; `rank` tokens are more likely.

    ratio: the token's probability after temperature, relative to the best token
    """
    if ratio < params.min_p:
        return "min_p"
    if 0 < params.top_k <= rank:
        return "top_k"
    return "top_p" if params.top_p < 1.0 and num_left <= rank else "rounding"
