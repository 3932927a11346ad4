"""Random numbers for sampling: one for each token that might come next, computed from what it would
be.

A generator with a state gives the n-th number to whoever asks n-th, so a request's text would
depend on who else is in the batch, and a preemption would have to save and restore the state. Here
nothing is stored: a number is a hash of (seed, sequence index, position, token id), and asking
twice gives it twice.

Knows nothing of logits. Two decisions are easy to get wrong. The position counts prompt and output
together, from the sequence's tokens, and never the numbers drawn so far: after a preemption the
sequence has drawn nothing in this life, but its tokens are all still there. And there is a number
for every *token id*, not one for the whole position: see `sampler`, which needs them so that
rounding cannot change a draw.

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
    """64 bits, as a signed integer, for the token at `position`; every argument fits in 64 bits,
    signed.
    """
    # Fixed widths: with digits of any length, (1, 23) and (12, 3) would be hashed as the same
    # bytes.
    digest = blake2b(struct.pack("<qqq", seed, sequence_index, position), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def request_seed(request: Request, engine_seed: int) -> int:
    """The request's own seed; without one, 64 bits that follow from the engine's seed and the
    request's id.
    """
    if request.params.seed is not None:
        return request.params.seed
    # An id may hold any text a caller sends, also half of a surrogate pair.
    text = f"{engine_seed}/{request.request_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


def key_for_next_token(sequence: Sequence, engine_seed: int) -> int:
    """The key for the token that will follow the sequence's last known one."""
    return draw_key(
        request_seed(sequence.request, engine_seed), sequence.index, sequence.num_tokens
    )


def exponentials(keys: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Exponentially distributed numbers of mean 1, all over 0 and finite.

    `keys: [num_rows]`, `token_ids: [num_tokens]`, both int64. Returns float64 `[num_rows,
    num_tokens]`: entry (i, j) depends on `keys[i]` and `token_ids[j]` alone, and is equal on every
    device to within rounding.
    """
    # SplitMix64's output number `token_id + 1` from the state `key`. int64 multiplication wraps
    # around as we need it.
    bits = keys.unsqueeze(-1) + (token_ids + 1) * _signed(_GOLDEN)
    bits.bitwise_xor_(_shift_right(bits, 30)).mul_(_signed(_MIX_1))
    bits.bitwise_xor_(_shift_right(bits, 27)).mul_(_signed(_MIX_2))
    bits.bitwise_xor_(_shift_right(bits, 31))
    # The middle of one of 2^52 equal pieces of (0, 1): neither 0 nor 1, so the logarithm is finite
    # and not 0.
    uniform = _shift_right(bits, 12).double().add_(0.5).mul_(2.0**-52)
    return uniform.log_().neg_()


def _shift_right(bits: torch.Tensor, count: int) -> torch.Tensor:
    """A logical shift: int64 knows only the other kind, which copies the sign."""
    return (bits >> count).bitwise_and_((1 << (64 - count)) - 1)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
