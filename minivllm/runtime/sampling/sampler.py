"""`Sampler`: from one step's logits to one token a sequence, with log-probabilities where they were
asked for.

Knows nothing of the model, of text or of when to stop.

The decision that is easy to get wrong is independence: a row's token may depend on its logits and
its sequence alone, never on its neighbours, its place in the batch or what was drawn before. A
generator with a state is out, then; but rounding is a neighbour, too. Another batch or block size
changes logits in their last bits, and whoever looks one random number up in the *cumulative*
probabilities adds those bits up over 49,152 tokens: a draw from the long tail then hits the next
token, once in a few dozen draws. So the tokens race: each has a random arrival time of its own
(`rng`), divided by its probability, and the first one wins. Last bits move each time by as little
as themselves. (This is the Gumbel-max trick, as in vLLM, without logarithms.)

Log-probabilities are the model's own, from before any processing (vLLM's `raw_logprobs`).

Source: vLLM `vllm/v1/sample/sampler.py`.
"""

import logging
from collections.abc import Collection, Iterator

import torch

from minivllm.core.request import Sequence
from minivllm.errors import SamplingError
from minivllm.outputs import Logprob, SampledToken
from minivllm.runtime.sampling.logits_processors import (
    apply_logits_processors,
    changes_best_token,
    to_weights,
)
from minivllm.runtime.sampling.rng import exponentials, key_for_next_token

_log = logging.getLogger("minivllm.engine.engine")

_CPU_CHUNK = 200_000
"""Logits that are drawn from at once: float64 copies of so few stay in the cache (top-p is a third
faster by it).
"""

_GPU_CHUNK = 2**24
"""On a GPU few large steps are faster; this only bounds the memory that they take (128 MiB a
copy).
"""


class Sampler:
    """Draws the next token of every sequence in a batch. Keeps no state between calls."""

    def __init__(self, eos_token_ids: Collection[int], engine_seed: int = 0) -> None:
        """`eos_token_ids` are masked under `min_tokens`; `engine_seed` serves requests that bring
        no seed.
        """
        self._eos_token_ids = frozenset(eos_token_ids)
        self._engine_seed = engine_seed

    def __call__(self, logits: torch.Tensor, sequences: list[Sequence]) -> list[SampledToken]:
        """One token for each row of `logits: [num_seqs, vocab]` (float32), row i being that of
        `sequences[i]`.

        `logits` is only read, and a call changes nothing, so after a `SamplingError`, which names
        the sequence at fault, a caller may leave that one out and call again with the other rows.
        """
        best_logits, best_ids = best_tokens(logits)
        # Plain greedy rows, often all of a batch, have their token then. The others take a few
        # passes more.
        special = [
            row for row, sequence in enumerate(sequences) if not sequence.request.is_plain_greedy
        ]
        # Both answers at once: on a GPU this is where the host waits for the step, and once is
        # enough.
        token_ids, finite = torch.stack((best_ids, torch.isfinite(best_logits).long())).tolist()
        if not all(finite):
            raise _no_token(
                sequences[finite.index(0)],
                "the model gave NaN, infinite or only -inf logits; check its weights and dtype",
            )

        processed = {}  # row -> [vocab]
        for row in special:
            sequence = sequences[row]
            if changes_best_token(sequence):
                try:
                    processed[row] = apply_logits_processors(
                        logits[row], sequence, self._eos_token_ids
                    )
                except Exception as error:
                    raise _no_token(
                        sequence, "what its parameters do to the logits failed"
                    ) from error
                best_logit, best_id = processed[row].max(dim=-1)
                if not torch.isfinite(best_logit):
                    raise _no_token(
                        sequence,
                        "its parameters leave no finite logit; relax min_tokens, stop_token_ids or"
                        " repetition_penalty",
                    )
                token_ids[row] = int(best_id)

        random_rows = [row for row in special if not sequences[row].request.params.greedy]
        for rows in _chunks(random_rows, logits):
            row_logits = torch.stack([processed.get(row, logits[row]) for row in rows])
            drawn = self._draw(row_logits, [sequences[row] for row in rows])
            for row, token_id in zip(rows, drawn, strict=True):
                token_ids[row] = token_id

        sampled = [SampledToken(token_id) for token_id in token_ids]
        for row in special:
            num_best = sequences[row].request.num_logprobs
            if num_best is not None:
                sampled[row].logprobs = token_logprobs(logits[row], token_ids[row], num_best)
        return sampled

    def sample_each(
        self, logits: torch.Tensor, sequences: list[Sequence]
    ) -> list[SampledToken | SamplingError]:
        """As calling it, but a sequence that has no token gets its error, and the others their
        tokens all the same.
        """
        try:
            return self(logits, sequences)
        except (
            Exception
            # one of them is at fault: which one shows when each is alone, and a token is the
            # same in any batch
        ):
            return [
                self._sample_alone(logits[row : row + 1], sequence)
                for row, sequence in enumerate(sequences)
            ]

    def _sample_alone(
        self, logits: torch.Tensor, sequence: Sequence
    ) -> SampledToken | SamplingError:
        try:
            return self(logits, [sequence])[0]
        except SamplingError as error:
            return error
        except Exception:
            _log.exception(
                "the sampler fails on one sequence", extra={"fields": {"sequence": sequence.seq_id}}
            )
            return _no_token(sequence, "the sampler failed on it")

    def _draw(self, logits: torch.Tensor, sequences: list[Sequence]) -> list[int]:
        """Draw from `logits: [num_rows, vocab]` after temperature, min-p, top-k and top-p."""
        weights = to_weights(logits, [sequence.request.params for sequence in sequences])
        keys = [key_for_next_token(sequence, self._engine_seed) for sequence in sequences]
        # Only those that may win: after top-k and top-p that is a handful.
        candidates = weights.any(dim=0).nonzero().squeeze(-1)  # [num_candidates], token ids
        # [num_rows, num_candidates]
        times = exponentials(torch.tensor(keys, device=weights.device), candidates)
        # weight / time is largest where time / weight is smallest, and 0 for a token that must not
        # be drawn.
        winners = (weights[:, candidates] / times).argmax(dim=-1)
        return candidates[winners].tolist()


def best_tokens(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest of `logits: [num_seqs, vocab]` in each row, and where: [num_seqs] each.

    As `logits.max(dim=-1)`: the lowest index on ties, and NaN where there is one, so that one pass
    serves greedy tokens and bad rows. NumPy finds an index sixteen numbers at a time, where torch
    looks at them one by one; and it needs no other thread, which on a busy machine would have to be
    waited for.
    """
    if logits.device.type != "cpu":
        return logits.max(dim=-1)
    best_ids = torch.from_numpy(logits.numpy().argmax(axis=-1))
    return logits.gather(-1, best_ids.unsqueeze(-1)).squeeze(-1), best_ids


def _no_token(sequence: Sequence, why: str) -> SamplingError:
    return SamplingError(
        f"No token can be sampled for sequence {sequence.seq_id}: {why}.", sequence.seq_id
    )


def _chunks(rows: list[int], logits: torch.Tensor) -> Iterator[list[int]]:
    """`rows` in parts of at most the device's share of logits, or of one row."""
    num_logits = _CPU_CHUNK if logits.device.type == "cpu" else _GPU_CHUNK
    num_rows = max(1, num_logits // logits.shape[-1])
    for start in range(0, len(rows), num_rows):
        yield rows[start : start + num_rows]


def token_logprobs(logits: torch.Tensor, token_id: int, num_best: int) -> dict[int, Logprob]:
    """By token id: the sampled token, then the `num_best` most likely ones, from raw `logits:
    [vocab]`.
    """
    # One row at a time and in float64: the sum's rounding, far under float32's, is then the same in
    # any batch.
    log_total = logits.double().logsumexp(dim=-1)
    score = logits[token_id]
    num_better = (logits > score).sum() + (logits[:token_id] == score).sum()
    best = {best_id: rank for rank, best_id in enumerate(_best_token_ids(logits, num_best), 1)}
    ranks = {token_id: int(num_better) + 1} | best
    logprobs = (logits[list(ranks)].double() - log_total).tolist()
    return {
        i: Logprob(logprob, rank)
        for (i, rank), logprob in zip(ranks.items(), logprobs, strict=True)
    }


def _best_token_ids(logits: torch.Tensor, count: int) -> list[int]:
    """The `count` most likely tokens of `logits: [vocab]`, best first and on ties the lower id
    first.
    """
    if count == 0:
        return []
    # `topk` says nothing about which of equal values it returns, so it only gives us the boundary.
    boundary = logits.topk(min(count, len(logits))).values[-1]
    candidates = (logits >= boundary).nonzero().squeeze(-1)  # in the order of their ids
    order = logits[candidates].sort(descending=True, stable=True).indices
    return candidates[order][:count].tolist()
