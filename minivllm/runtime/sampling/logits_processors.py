"""Apply a request's sampling parameters to its logits, in the order of vLLM V1.

1. `apply_logits_processors`, one row at a time: grammar mask, min-tokens mask, logit bias, then
   repetition, frequency and presence penalty. It can change the best token, so greedy requests
   need it too.
2. `to_weights`, all rows at once: temperature, min-p, then top-k and top-p. It cannot change the
   best token, so only random sampling needs it.

A sum of floats depends on the order of its terms, which depends on the number of rows and threads.
So with ordinary float weights, batch-mates could change a row's tokens. Our weights are whole
numbers in float64 with a sum below 2^53, and such sums are exact in any order. The price: a token
that is 2^38 times less likely than the best token (for a vocabulary of 49,152) is never drawn.

Source: vLLM `vllm/v1/sample/sampler.py`, `vllm/v1/sample/logits_processor/builtin.py`,
`vllm/v1/sample/ops/`; nucleus sampling is https://arxiv.org/abs/1904.09751, min-p
https://arxiv.org/abs/2407.01082.
"""

from collections import Counter
from collections.abc import Collection

import torch

from minivllm.core.request import Sequence
from minivllm.runtime.sampling.grammar_bitmask import apply_grammar_bitmask
from minivllm.sampling_params import SamplingParams

_EXACT_BITS = 53
"""Whole numbers up to 2^53 are exact in float64."""

_FIRST_HEAD = 256
"""Top-k and top-p first look at so many best tokens. A full sort takes 50 times longer."""

_HEAD_GROWTH = 16


# ---- 1. processors that may change the best token ----


def changes_best_token(sequence: Sequence) -> bool:
    """Whether `apply_logits_processors` would change the sequence's logits."""
    params = sequence.request.params
    return (
        sequence.request.grammar is not None
        or sequence.num_output_tokens < params.min_tokens
        or bool(params.logit_bias)
        or params.repetition_penalty != 1.0
        or params.frequency_penalty != 0.0
        or params.presence_penalty != 0.0
    )


def apply_logits_processors(
    logits: torch.Tensor, sequence: Sequence, eos_token_ids: Collection[int]
) -> torch.Tensor:
    """Return a processed copy of `logits: [vocab]`.

    Every token id must be in the vocabulary; the engine checks that when a request arrives.
    """
    params, grammar = sequence.request.params, sequence.request.grammar
    bitmask = None if grammar is None else grammar.bitmask(sequence)
    logits = logits.clone() if bitmask is None else apply_grammar_bitmask(logits, bitmask)
    if sequence.num_output_tokens < params.min_tokens:
        # `ignore_eos` does not matter here: it changes when a sequence stops, not what is drawn.
        banned = {*eos_token_ids, *params.stop_token_ids}
        logits[_ids(banned, logits)] = -torch.inf
    if params.logit_bias:
        logits[_ids(params.logit_bias, logits)] += _values(params.logit_bias.values(), logits)
    if params.repetition_penalty != 1.0:
        seen = _ids(set(sequence.token_ids), logits)
        scores = logits[seen]
        # Division would make a token with a negative logit more likely, so multiply there.
        penalty = params.repetition_penalty
        logits[seen] = torch.where(scores > 0, scores / penalty, scores * penalty)
    if params.frequency_penalty != 0.0 or params.presence_penalty != 0.0:
        times = Counter(sequence.output_token_ids)
        seen, counts = _ids(times, logits), _values(times.values(), logits)
        # Subtract the two penalties one after the other, as vLLM does, to get the same rounding.
        logits[seen] = logits[seen] - params.frequency_penalty * counts - params.presence_penalty
    return logits


def _ids(token_ids: Collection[int], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(list(token_ids), dtype=torch.int64, device=like.device)


def _values(values: Collection[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(list(values), dtype=like.dtype, device=like.device)


# ---- 2. from logits to weights ----


def to_weights(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    """Turn `logits: [num_rows, vocab]` into whole-number weights, with one `params` per row.

    Returns float64 `[num_rows, vocab]`; row i divided by its sum is the distribution to draw from.
    Each row needs a finite best logit and a temperature above 0.
    """
    vocab = logits.shape[-1]
    weights = _relative_to_best(logits, params)
    weights.mul_(2.0 ** (_EXACT_BITS - vocab.bit_length())).round_()
    if any(0 < p.top_k < vocab or p.top_p < 1.0 for p in params):
        _apply_top_k_top_p(logits, weights, params)
    return weights


def _relative_to_best(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    """Return `exp(logit / temperature)` relative to the row's best token; below `min_p`, return 0.

    The result is float64 `[num_rows, vocab]`; the best token of a row has 1.
    """
    weights = logits.double()
    # Subtract the best logit first, so that nothing overflows with a temperature near 0.
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

    Both keep a number of best tokens (on ties, the tokens with lower ids). So sort only a short
    head of each row, and a longer head only if the short one is not enough.
    """
    vocab = logits.shape[-1]
    # [num_rows, 1] each. A top-k that is off keeps the whole vocabulary.
    limits = [p.top_k if 0 < p.top_k < vocab else vocab for p in params]
    top_k = torch.tensor(limits, dtype=torch.int64, device=logits.device).unsqueeze(-1)
    top_p = _column([p.top_p for p in params], weights)
    total = weights.sum(dim=-1, keepdim=True)
    count = torch.full_like(top_k, vocab)  # how many tokens stay
    # the logit of the last token that stays
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
        # A row is settled if its top-k fits into the head, or if it has no top-k and its top-p ends
        # in the head. (If top-k is longer than the head, the mass for top-p is not known yet.)
        settled = (top_k[rows] <= head_size) | ((top_k[rows] == vocab) & (head_count < head_size))
        rows = rows[~settled.squeeze(-1)]
        head_size = min(head_size * _HEAD_GROWTH, vocab)
    weights.masked_fill_(~_kept(logits, boundary, count), 0.0)


def _kept(logits: torch.Tensor, boundary: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Mark the best `count` tokens of each row (on ties, the lower ids): `[num_rows, vocab]`.

    `boundary: [num_rows, 1]`: the logit of the last token that stays
    `count: [num_rows, 1]`: the number of tokens that stay
    """
    kept = logits >= boundary
    num_too_many = kept.sum(dim=-1, keepdim=True) - count
    if num_too_many.any():  # too many tokens tie at the boundary
        tied = logits == boundary
        room = tied.sum(dim=-1, keepdim=True) - num_too_many
        kept &= ~tied | (tied.cumsum(dim=-1, dtype=torch.int32) <= room)
    return kept


def _count_kept(
    head: torch.Tensor, total: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    """Count the tokens of each row's head that the row keeps: `[rows, 1]`, at least 1.

    `head: [rows, head_size]`: the weights of the best tokens, best first
    `total: [rows, 1]`: the weight of the whole vocabulary; `top_k`, `top_p`: `[rows, 1]`

    A token stays if the tokens before it have less than `top_p` of the mass that top-k keeps, as in
    vLLM. This gives the smallest set that reaches `top_p`.
    """
    head_size = head.shape[-1]
    in_top_k = torch.arange(head_size, device=head.device) < top_k
    head = head * in_top_k
    total = torch.where(top_k <= head_size, head.sum(dim=-1, keepdim=True), total)
    mass_before = head.cumsum(dim=-1) - head
    return (in_top_k & (mass_before < top_p * total)).sum(dim=-1, keepdim=True)
