"""`explain`: why the sampler chose a token, stage by stage.

    model's logits > mask, bias, penalties > temperature > min-p, top-k, top-p > race > token

Called by the sampler after the draw, for watched sequences only. It reads the tensors of the draw
and changes none, so explaining cannot change a token.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from minivllm.core.request import Sequence
from minivllm.sampling_params import SamplingParams

NUM_BEST = 8
"""How many tokens to show: the most likely ones after mask, bias and penalties."""
_NUM_BEST_OF_MODEL = 3
"""If mask, bias or penalties apply, also show the model's own best tokens, this many."""

CutName = Literal["min_tokens", "min_p", "top_k", "top_p"]
CutBy = Literal["min_tokens", "min_p", "top_k", "top_p", "rounding"]


class Cut(NamedTuple):
    """A stage that removes tokens."""

    name: CutName
    value: float
    """The request's sampling parameter of this name."""
    num_left: int
    """How many tokens of the vocabulary are left after this stage."""


class CandidateStages(NamedTuple):
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
    processed: torch.Tensor,
    sequence: Sequence,
    token_id: int,
    race: Race | None,
) -> Explanation:
    """Explain why `token_id` was chosen. The sequence must not have the token yet.

    logits:    [vocab], the model's
    processed: [vocab], after mask, bias and penalties; `logits` itself if there are none
    race:      the draw; None for greedy sampling
    """
    params = sequence.request.params
    best = processed.topk(min(NUM_BEST, len(processed)))
    ids = [best.indices, torch.tensor([token_id], device=logits.device)]
    if processed is not logits:
        ids.append(logits.topk(min(_NUM_BEST_OF_MODEL, len(logits))).indices)
    if race is not None:
        ids.append(race.token_ids[race.speeds.topk(min(2, len(race.speeds))).indices])
    ids = torch.cat(ids)  # with duplicates
    columns = [ids, logits[ids], processed[ids]]
    num_left, weight, temperature = 1, 0.0, params.temperature or 1.0
    if race is not None:
        at = torch.searchsorted(race.token_ids, ids).clamp_(max=len(race.token_ids) - 1)
        columns += [race.weights[ids], race.speeds[at]]
        num_left, weight = int((race.speeds > 0).sum()), float(race.weights.sum())
    total, highest = float(logits.logsumexp(dim=-1)), float(best.values[0])
    tempered_total = total - highest
    if processed is not logits or temperature != 1.0:
        tempered_total = float(((processed - highest) / temperature).logsumexp(dim=-1))
    rows = torch.stack([column.double() for column in columns], dim=-1).tolist()
    # For a dozen rows, plain Python is faster than one tensor operation for each column.
    for row in rows:
        probability = math.exp(row[1] - total)
        tempered = math.exp((row[2] - highest) / temperature - tempered_total)
        final, draw = float(row[0] == token_id), 0.0
        if race is not None:
            final, draw = row[3] / weight, row[3] / row[4] if row[4] else math.nan
        row[3:] = probability, tempered, final, draw
    candidates = _candidates(rows, sequence, processed, tempered_total, num_left, race)
    cuts = _cuts(sequence, processed, highest, num_left)
    return Explanation(candidates, cuts, num_left, len(logits))


def _candidates(
    rows: list[list[float]],
    sequence: Sequence,
    processed: torch.Tensor,
    tempered_total: float,
    num_left: int,
    race: Race | None,
) -> list[CandidateStages]:
    """Return one record per token, most likely first.

    rows:           id, logit, processed logit, three probabilities and the draw, with duplicates
    tempered_total: log of the sum of all probabilities relative to the best token's
    """
    candidates: dict[int, CandidateStages] = {}
    for number, logit, processed_logit, *probabilities, draw_ in sorted(
        rows, key=lambda row: (-row[2], row[0])
    ):
        cut_by = None
        if probabilities[-1] == 0.0 and race is not None:
            rank = len(candidates)  # the best tokens come first, and no token is missing
            if rank >= NUM_BEST:
                rank = int((processed > processed_logit).sum())
            ratio = probabilities[1] / math.exp(-tempered_total)
            cut_by = _cut_by(sequence.request.params, rank, ratio, num_left)
        if processed_logit == -torch.inf:
            processed_logit, cut_by = None, "min_tokens"
        if logit > -torch.inf:  # otherwise, the model itself excludes the token
            candidates[int(number)] = CandidateStages(
                int(number),
                logit,
                processed_logit,
                *probabilities,
                cut_by,
                draw_ if race is not None and probabilities[-1] > 0.0 else None,
            )
    return list(candidates.values())


def _cuts(sequence: Sequence, processed: torch.Tensor, highest: float, num_left: int) -> list[Cut]:
    """Return the stages that removed tokens.

    highest:  the best token's logit in `processed`
    num_left: how many tokens have a weight in the end
    """
    params, found = sequence.request.params, []
    if sequence.num_output_tokens < params.min_tokens:
        found.append(Cut("min_tokens", params.min_tokens, int(processed.isfinite().sum())))
    if params.greedy:
        return found
    if params.min_p > 0.0:
        relative = (processed - highest) / params.temperature
        num_likely = int((relative >= math.log(params.min_p)).sum())
        found.append(Cut("min_p", params.min_p, num_likely))
    if 0 < params.top_k < len(processed):
        smallest = min([params.top_k, *(cut.num_left for cut in found)])
        found.append(Cut("top_k", params.top_k, smallest))
    if params.top_p < 1.0:
        found.append(Cut("top_p", params.top_p, num_left))
    return found


def _cut_by(params: SamplingParams, rank: int, ratio: float, num_left: int) -> CutBy:
    """Return the stage that removed a token without a weight.

    rank:  how many tokens are more likely
    ratio: the token's probability after temperature, relative to the best token
    """
    if ratio < params.min_p:
        return "min_p"
    if 0 < params.top_k <= rank:
        return "top_k"
    return "top_p" if params.top_p < 1.0 and num_left <= rank else "rounding"
