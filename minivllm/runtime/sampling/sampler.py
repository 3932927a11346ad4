"""`Sampler`: from one step's logits to one token per sequence, with optional log-probabilities.

A row's token must depend only on its own logits and its sequence, never on its batch-mates. So the
random numbers have no state, and rounding must not change a draw. Another batch size or
block size changes the last bits of the logits. In *cumulative* probabilities these errors add up
over the vocabulary (49,152 tokens in SmolLM2): about once in a few dozen draws, a lookup would land
on the neighbouring token.

Instead, each token gets its own random arrival time, divided by its probability, and the earliest
token wins. A changed last bit of a logit changes only the last bits of that token's time. (This is
the Gumbel-max trick, as in vLLM, without logarithms.)

Log-probabilities are the model's own, from before any processing (vLLM's `raw_logprobs`).

Source: vLLM `vllm/v1/sample/sampler.py`.
"""

import logging
import struct
from collections.abc import Callable, Collection
from hashlib import blake2b

import torch

from minivllm.core.request import Request, Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import RequestFailedError, SamplingError
from minivllm.outputs import Logprob, PromptTokenLogprob, SampledToken
from minivllm.runtime.sampling.explanation import Race, explain
from minivllm.runtime.sampling.logits_processors import (
    apply_logits_processors,
    changes_best_token,
    to_weights,
)

_log = logging.getLogger("minivllm.engine.engine")

_CPU_CHUNK = 200_000
"""Most logits of a draw on a CPU, where their float64 copies then stay in the cache."""

_GPU_CHUNK = 2**24
"""Most logits of a draw on a GPU, where few large draws are faster: 128 MiB a copy."""

_ROWS_AT_ONCE = 64
"""Rows of logits that are in memory at once: 12 MB for a vocabulary of 49,152."""

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


class Sampler:
    """Draws the next token of every sequence in a batch. Keeps no state between calls."""

    def __init__(self, eos_token_ids: Collection[int], engine_seed: int = 0) -> None:
        """engine_seed: for requests without a seed"""
        self._eos_token_ids = frozenset(eos_token_ids)
        self._engine_seed = engine_seed

    def __call__(
        self, logits: torch.Tensor, sequences: list[Sequence], watched: Collection[Sequence] = ()
    ) -> list[SampledToken]:
        """Sample one token for each row of `logits: [num_seqs, vocab]` (float32).

        Row i belongs to `sequences[i]`. Tokens of `watched` sequences are explained. A call changes
        neither `logits` nor any other state. A `SamplingError` names the sequence that caused it.
        """
        best_logits, best_ids = best_tokens(logits)
        # Plain greedy rows (often the whole batch) are done.
        special = [
            row for row, sequence in enumerate(sequences) if not sequence.request.is_plain_greedy
        ]
        # Fetch both results at once: on a GPU, the host waits here for the step.
        token_ids, finite = torch.stack((best_ids, torch.isfinite(best_logits).long())).tolist()
        if not all(finite):
            raise _no_token(
                sequences[finite.index(0)],
                "the model returned NaN, infinite or only -inf logits; check its weights and dtype",
            )

        processed = {}  # row -> [vocab]
        for row in special:
            sequence = sequences[row]
            if changes_best_token(sequence):
                row_logits, token_ids[row] = self._process(logits[row], sequence)
                # Keep what is needed below; the next row then gets the same, cached memory.
                if not sequence.request.params.greedy or sequence in watched:
                    processed[row] = row_logits

        random_rows = [row for row in special if not sequences[row].request.params.greedy]
        races = {}  # row -> the draw, for watched sequences
        most_logits = _CPU_CHUNK if logits.device.type == "cpu" else _GPU_CHUNK
        rows_a_draw = max(1, most_logits // logits.shape[-1])
        for start in range(0, len(random_rows), rows_a_draw):
            rows = random_rows[start : start + rows_a_draw]
            row_logits = torch.stack([processed.get(row, logits[row]) for row in rows])
            weights, candidates, speeds = self._race(row_logits, [sequences[row] for row in rows])
            drawn = candidates[speeds.argmax(dim=-1)].tolist()
            for row, token_id in zip(rows, drawn, strict=True):
                token_ids[row] = token_id
            for i, row in enumerate(rows if watched else ()):
                if sequences[row] in watched:
                    races[row] = Race(weights[i], candidates, speeds[i])

        sampled = [SampledToken(token_id) for token_id in token_ids]
        for row in special:
            num_best = sequences[row].request.num_logprobs
            if num_best is not None:
                sampled[row].logprobs = token_logprobs(logits[row], token_ids[row], num_best)
        for row, sequence in enumerate(sequences if watched else ()):
            if sequence in watched:
                sampled[row].explanation = explain(
                    logits[row], processed.get(row), sequence, token_ids[row], races.get(row)
                )
        return sampled

    def _process(self, logits: torch.Tensor, sequence: Sequence) -> tuple[torch.Tensor, int]:
        """Apply masks, bias and penalties to `logits: [vocab]`; return the copy and its best id."""
        try:
            processed = apply_logits_processors(logits, sequence, self._eos_token_ids)
        except RequestFailedError as error:  # its grammar's own reason
            raise SamplingError(str(error), sequence.seq_id, type(error)) from error
        except Exception as error:
            raise _no_token(sequence, "applying its parameters to the logits failed") from error
        best_logit, best_id = best_tokens(processed.unsqueeze(0))
        if not torch.isfinite(best_logit):
            raise _no_token(
                sequence,
                "its parameters leave no finite logit; relax min_tokens, stop_token_ids,"
                " repetition_penalty or structured_outputs",
            )
        return processed, int(best_id)

    def sample_each(
        self, logits: torch.Tensor, sequences: list[Sequence], watched: Collection[Sequence] = ()
    ) -> list[SampledToken | SamplingError]:
        """Like `__call__`, but return the error of a sequence in place of its token."""
        try:
            return self(logits, sequences, watched)
        except Exception as error:
            if len(sequences) != 1:
                # Sample each sequence alone to find the one that fails. The others get the same
                # tokens as in the batch.
                alone = zip(logits.split(1), sequences, strict=True)
                return [self.sample_each(row, [own], watched)[0] for row, own in alone]
            if isinstance(error, SamplingError):
                return [error]
            fields = {"sequence": sequences[0].seq_id}
            _log.exception("the sampler failed on one sequence", extra={"fields": fields})
            return [_no_token(sequences[0], "the sampler failed on this sequence")]

    def _race(
        self, logits: torch.Tensor, sequences: list[Sequence]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Run the race for `logits: [num_rows, vocab]` after temperature, min-p, top-k and top-p.

        Returns the fields of `Race` for all rows, which have the same `token_ids`.
        """
        weights = to_weights(logits, [sequence.request.params for sequence in sequences])
        keys = [key_for_next_token(sequence, self._engine_seed) for sequence in sequences]
        # Consider only tokens with a weight in some row; after top-k and top-p, these are few.
        candidates = weights.any(dim=0).nonzero().squeeze(-1)  # [num_candidates], token ids
        # [num_rows, num_candidates]
        times = exponentials(torch.tensor(keys, device=weights.device), candidates)
        # The smallest time / weight is the largest weight / time. An excluded token has weight 0,
        # so it never wins.
        return weights, candidates, weights[:, candidates] / times


def best_tokens(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest logit of each row of `logits: [num_seqs, vocab]` and its index.

    As with `logits.max(dim=-1)`, ties go to the lowest index, and a row with a NaN gives NaN. On a
    CPU, NumPy compares sixteen numbers at a time, torch one, and NumPy waits for no other threads.
    """
    if logits.device.type != "cpu":
        return logits.max(dim=-1)
    best_ids = torch.from_numpy(logits.numpy().argmax(axis=-1))
    return logits.gather(-1, best_ids.unsqueeze(-1)).squeeze(-1), best_ids


def _no_token(sequence: Sequence, why: str) -> SamplingError:
    return SamplingError(
        f"No token can be sampled for sequence {sequence.seq_id}: {why}.", sequence.seq_id
    )


def token_logprobs(logits: torch.Tensor, token_id: int, num_best: int) -> dict[int, Logprob]:
    """Return log-probabilities by token id, from raw `logits: [vocab]`.

    The sampled token is first, then the `num_best` most likely tokens.
    """
    # Sum one row at a time, in float64, so that the rounding is the same in any batch.
    log_total = logits.double().logsumexp(dim=-1)
    score = logits[token_id]
    num_better = (logits > score).sum() + (logits[:token_id] == score).sum()
    best = {best_id: rank for rank, best_id in enumerate(_best_token_ids(logits, num_best), 1)}
    ranks = {token_id: int(num_better) + 1} | best
    logprobs = (logits[list(ranks)].double() - log_total).tolist()
    return dict(zip(ranks, map(Logprob, logprobs, ranks.values()), strict=True))


def _best_token_ids(logits: torch.Tensor, count: int) -> list[int]:
    """Return the `count` best tokens of `logits: [vocab]`, best first, lower ids first on ties."""
    if count == 0:
        return []
    # `topk` may return any of several equal values, so use it only to find the boundary.
    boundary = logits.topk(min(count, len(logits))).values[-1]
    candidates = (logits >= boundary).nonzero().squeeze(-1)  # in the order of their ids
    order = logits[candidates].sort(descending=True, stable=True).indices
    return candidates[order][:count].tolist()


def compute_prompt_logprobs(
    plan: SchedulerOutput,
    hidden: torch.Tensor,
    compute_logits: Callable[[torch.Tensor], torch.Tensor],
) -> list[PromptTokenLogprob]:
    """Return the log-probabilities of prompt tokens, for sequences that request them.

    The row of token p predicts token p + 1, so the chunk before predicts the first token of a
    chunk. Generation uses only the last row of a prompt; here all rows go through the LM head.

    hidden: [num_tokens, hidden_size]; compute_logits: rows of it -> [num_rows, vocab_size]
    """
    found: list[PromptTokenLogprob] = []
    first_row = 0
    for item in plan.scheduled:
        sequence = item.sequence
        # Stop before the last prompt token's row: it predicts the first output token.
        num_rows = min(item.num_tokens, sequence.num_prompt_tokens - 1 - item.start)
        if sequence.wants_prompt_logprobs and num_rows > 0:
            position, num_best = item.start, sequence.request.params.prompt_logprobs
            for rows in hidden[first_row : first_row + num_rows].split(_ROWS_AT_ONCE):
                for logits in compute_logits(rows):
                    position += 1
                    logprobs = token_logprobs(logits, sequence.token_ids[position], num_best)
                    found.append(PromptTokenLogprob(sequence.seq_id, position, logprobs))
        first_row += item.num_tokens
    return found


# ---- random numbers: a hash of (seed, sequence index, position, token id) ----
#
# With a stateful generator, a request's text would depend on its batch-mates, and a preemption
# would have to save the state. The position counts the sequence's tokens, not the draws, so a
# preempted sequence continues with the same numbers.
#
# Source: SplitMix64 (Steele, Lea and Flood, 2014). The same idea elsewhere: JAX's keys, and vLLM's
# `vllm/v1/worker/gpu/sample/gumbel.py`.


def draw_key(seed: int, sequence_index: int, position: int) -> int:
    """Return the key for `position`; key and arguments are signed 64-bit integers."""
    # Use fixed widths: written as decimal digits, (1, 23) and (12, 3) would be the same bytes.
    digest = blake2b(struct.pack("<qqq", seed, sequence_index, position), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def request_seed(request: Request, engine_seed: int) -> int:
    """Return the request's seed; without one, 64 bits from the engine's seed and the request id."""
    if request.params.seed is not None:
        return request.params.seed
    # An id can be any text that a caller sends, even half of a surrogate pair.
    text = f"{engine_seed}/{request.request_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


def key_for_next_token(sequence: Sequence, engine_seed: int) -> int:
    """Return the key for the token that follows the sequence's last token."""
    seed = request_seed(sequence.request, engine_seed)
    return draw_key(seed, sequence.index, sequence.num_tokens)


def exponentials(keys: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Return exponentially distributed numbers with mean 1, all finite and above 0.

    `keys: [num_rows]`, `token_ids: [num_tokens]`, both int64. Returns float64: entry (i, j) depends
    on `keys[i]` and `token_ids[j]` only, and is the same on every device except for rounding.
    """
    # This is output number `token_id + 1` of SplitMix64 with the state `key`. int64 multiplication
    # wraps around, as SplitMix64 requires.
    bits = keys.unsqueeze(-1) + (token_ids + 1) * _signed(_GOLDEN)
    bits.bitwise_xor_(_shift_right(bits, 30)).mul_(_signed(_MIX_1))
    bits.bitwise_xor_(_shift_right(bits, 27)).mul_(_signed(_MIX_2))
    bits.bitwise_xor_(_shift_right(bits, 31))
    # Take the middle of one of 2^52 intervals of (0, 1), so that the logarithm is finite and not 0.
    uniform = _shift_right(bits, 12).double().add_(0.5).mul_(2.0**-52)
    return uniform.log_().neg_()


def _shift_right(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Shift right logically; `>>` on int64 is arithmetic and copies the sign."""
    return (bits >> count).bitwise_and_((1 << (64 - count)) - 1)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
