"""Random numbers for sampling, one for each possible next token, computed without a state.

With a stateful generator, a request's text would depend on its batch-mates, and a preemption would
have to save the state. Here a number is a hash of (seed, sequence index, position, token id).

The position counts the sequence's tokens (prompt and output), not the draws, so a preempted
sequence continues with the same numbers. Each *token id* has its own number, so that rounding
cannot change a draw (see `sampler`).

Source: SplitMix64 (Steele, Lea and Flood, 2014). The same idea elsewhere: JAX's keys, and vLLM's
`vllm/v1/worker/gpu/sample/gumbel.py`.
"""

import struct
from hashlib import blake2b

import torch

from minivllm.core.request import Request, Sequence

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


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
    return draw_key(
        request_seed(sequence.request, engine_seed), sequence.index, sequence.num_tokens
    )


def exponentials(keys: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Return exponentially distributed numbers with mean 1, all finite and above 0.

    `keys: [num_rows]`, `token_ids: [num_tokens]`, both int64. Returns float64
    `[num_rows, num_tokens]`: entry (i, j) depends on `keys[i]` and `token_ids[j]` only, and is the
    same on every device except for rounding.
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
