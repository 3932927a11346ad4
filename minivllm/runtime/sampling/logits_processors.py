"""What a request's parameters do to its logits on the way to a token, in the order in which vLLM V1
does it.

1. `apply_logits_processors` can change which token is best, so greedy requests need it too:
   min-tokens mask, logit bias, then repetition, frequency and presence penalty. One row at a time:
   each row's tokens are its own.
2. `to_weights` cannot change which token is best and is for sampling alone: temperature, min-p,
   then top-k and top-p. All rows at once.

Knows nothing of random numbers, and never writes into the model's logits.

The decision that is easy to get wrong is rounding. A sum of floats depends on the order of its
terms, and that order on how many rows and threads there are, so a row's tokens could change with
its neighbours. Our weights are therefore whole numbers, stored in float64, whose sum over the
vocabulary stays below 2^53: sums of those are exact, in any order, on any device. The price: a
token less likely than the best one by a factor of 2^38 (at a vocabulary of 49,152) is never drawn.

Source: vLLM `vllm/v1/sample/sampler.py`, `vllm/v1/sample/logits_processor/builtin.py`,
`vllm/v1/sample/ops/`; nucleus sampling is https://arxiv.org/abs/1904.09751, min-p
https://arxiv.org/abs/2407.01082.
"""

from collections import Counter
from collections.abc import Collection

import torch

from minivllm.core.request import Sequence
from minivllm.sampling_params import SamplingParams

_EXACT_BITS = 53
"""Whole numbers up to 2^53 are exact in float64."""

_FIRST_HEAD = 256
"""How many best tokens top-k and top-p look at first. Most nuclei are smaller, and a full sort
costs 50 times more.
"""

_HEAD_GROWTH = 16


# ---- 1. processors that may change the best token ----


def changes_best_token(sequence: Sequence) -> bool:
    """Whether `apply_logits_processors` would do anything for the sequence's next token."""
    params = sequence.request.params
    return (
        sequence.num_output_tokens < params.min_tokens
        or bool(params.logit_bias)
        or params.repetition_penalty != 1.0
        or params.frequency_penalty != 0.0
        or params.presence_penalty != 0.0
    )


def apply_logits_processors(
    logits: torch.Tensor, sequence: Sequence, eos_token_ids: Collection[int]
) -> torch.Tensor:
    """A processed copy of `logits: [vocab]`. Every token id must be in the vocabulary (checked when
    a request comes in).
    """
    params = sequence.request.params
    logits = logits.clone()
    if sequence.num_output_tokens < params.min_tokens:
        # `ignore_eos` makes no difference: it is about stopping, and a masked token is not drawn at
        # all.
        banned = {*eos_token_ids, *params.stop_token_ids}
        logits[_ids(banned, logits)] = -torch.inf
    if params.logit_bias:
        logits[_ids(params.logit_bias, logits)] += _values(params.logit_bias.values(), logits)
    if params.repetition_penalty != 1.0:
        seen = _ids(set(sequence.token_ids), logits)
        scores = logits[seen]
        # Dividing a negative logit would make the token more likely, so those are multiplied.
        penalty = params.repetition_penalty
        logits[seen] = torch.where(scores > 0, scores / penalty, scores * penalty)
    if params.frequency_penalty != 0.0 or params.presence_penalty != 0.0:
        times = Counter(sequence.output_token_ids)
        # Two subtractions and not one of the sum: vLLM's order, so its rounding too.
        scores = logits[_ids(times, logits)] - params.frequency_penalty * _values(
            times.values(), logits
        )
        logits[_ids(times, logits)] = scores - params.presence_penalty
    return logits


def _ids(token_ids: Collection[int], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(list(token_ids), dtype=torch.int64, device=like.device)


def _values(values: Collection[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(list(values), dtype=like.dtype, device=like.device)


# ---- 2. from logits to what is drawn from ----


def to_weights(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    """The processed probabilities of `logits: [num_rows, vocab]`, one `params` a row, as
    whole-number weights.

    Returns float64 `[num_rows, vocab]`; row i divided by its sum is the distribution to draw from.
    Each row needs a finite best logit and a temperature over 0.
    """
    vocab = logits.shape[-1]
    weights = _relative_to_best(logits, params)
    weights.mul_(2.0 ** (_EXACT_BITS - vocab.bit_length())).round_()
    if any(0 < p.top_k < vocab or p.top_p < 1.0 for p in params):
        _apply_top_k_top_p(logits, weights, params)
    return weights


def _relative_to_best(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    """`exp(logit / temperature)` over that of the row's best token, in float64; 0 where that is
    under `min_p`.
    """
    weights = logits.double()
    # The best logit goes first: temperatures near 0 then send all others to exp(-inf) = 0, and
    # nothing overflows.
    weights -= weights.amax(dim=-1, keepdim=True)
    weights /= _column([p.temperature for p in params], weights)
    weights.exp_()
    if any(p.min_p > 0.0 for p in params):
        weights.masked_fill_(weights < _column([p.min_p for p in params], weights), 0.0)
    return weights


def _column(values: list[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device).unsqueeze(-1)  # [num_rows, 1]


def _apply_top_k_top_p(
    logits: torch.Tensor, weights: torch.Tensor, params: list[SamplingParams]
) -> None:
    """Zero in place the `weights: [num_rows, vocab]` of tokens outside each row's top-k and top-p.

    Both keep the best tokens, by logit and on ties by the lower id; they only disagree about how
    many. That takes the order of the best few tokens, never of the whole vocabulary, so we look at
    a short head of each row, and again at a longer one where it was too short.
    """
    vocab = logits.shape[-1]
    # [num_rows, 1] each. A top-k that is off keeps the whole vocabulary.
    limits = [p.top_k if 0 < p.top_k < vocab else vocab for p in params]
    top_k = torch.tensor(limits, dtype=torch.int64, device=logits.device).unsqueeze(-1)
    top_p = _column([p.top_p for p in params], weights)
    total = weights.sum(dim=-1, keepdim=True)
    count = torch.full_like(top_k, vocab)  # how many tokens stay
    # the logit of the last that stays
    boundary = torch.full_like(top_k, -torch.inf, dtype=logits.dtype)

    rows = ((top_k < vocab) | (top_p < 1.0)).squeeze(-1).nonzero().squeeze(-1)
    head_size = min(_FIRST_HEAD, vocab)
    while len(rows) > 0:
        # [rows, head_size], best first
        head_logits, head_ids = logits[rows].topk(head_size, dim=-1)
        head_weights = weights[rows.unsqueeze(-1), head_ids]
        head_count = _count_kept(head_weights, total[rows], top_k[rows], top_p[rows])
        count[rows] = head_count
        boundary[rows] = head_logits.gather(-1, head_count - 1)
        # Known are a top-k that lies in the head, and a top-p over the whole vocabulary that ends
        # in it. (With a longer top-k, top-p is a part of a mass that we have not seen all of.)
        settled = (top_k[rows] <= head_size) | ((top_k[rows] == vocab) & (head_count < head_size))
        rows = rows[~settled.squeeze(-1)]
        head_size = min(head_size * _HEAD_GROWTH, vocab)
    weights.masked_fill_(~_kept(logits, boundary, count), 0.0)


def _kept(logits: torch.Tensor, boundary: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Which tokens stay, `[num_rows, vocab]`: the best `count` of each row, and on ties those with
    lower ids.

    `boundary`: the logit of the last token that stays; `count`, how many stay: `[num_rows, 1]`
    each.
    """
    kept = logits >= boundary
    num_too_many = kept.sum(dim=-1, keepdim=True) - count
    if num_too_many.any():  # more tokens tie at the boundary than there is room for
        tied = logits == boundary
        room = tied.sum(dim=-1, keepdim=True) - num_too_many
        kept &= ~tied | (tied.cumsum(dim=-1, dtype=torch.int32) <= room)
    return kept


def _count_kept(
    head: torch.Tensor, total: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    """How many of the best tokens each row keeps, as far as its head shows: `[rows, 1]`, at least
    1.

    `head: [rows, head_size]` are the weights of the best tokens, best first; `total: [rows, 1]` is
    the sum over the whole vocabulary. A token stays while those before it have less than `top_p` of
    the mass: that is the smallest set that reaches `top_p`. The mass is what top-k has left, as in
    vLLM.
    """
    head_size = head.shape[-1]
    in_top_k = torch.arange(head_size, device=head.device) < top_k
    head = head * in_top_k
    total = torch.where(top_k <= head_size, head.sum(dim=-1, keepdim=True), total)
    mass_before = head.cumsum(dim=-1) - head
    return (in_top_k & (mass_before < top_p * total)).sum(dim=-1, keepdim=True)
