"""Random numbers for sampling: one uniform number per token, computed from what the token is.

A generator with a state gives the n-th number to whoever asks n-th, so a request's text would depend on
who else is in the batch, and a preemption would have to save and restore the state. Here nothing is
stored: the number is a hash of (seed, sequence index, position), and asking twice gives it twice.

Knows nothing of tensors. The decision that is easy to get wrong is the position: it counts prompt and
output together, from the sequence's tokens, and never the numbers drawn so far. After a preemption
the sequence has drawn nothing in this life, but its tokens are all still there.

The same idea with other hash functions: JAX's keys, and vLLM's `vllm/v1/worker/gpu/sample/gumbel.py`.
"""

import struct
from hashlib import blake2b

from minivllm.core.request import Request, Sequence

_DOUBLE_BITS = 53
"""A float64 in [0, 1) holds exactly the multiples of 2^-53; more random bits would round, perhaps up to 1."""


def uniform(seed: int, sequence_index: int, position: int) -> float:
    """The uniform number in [0, 1), 1 excluded, for the token at `position`; every argument fits in 64 bits, signed."""
    # Fixed widths: with digits of any length, (1, 23) and (12, 3) would be hashed as the same bytes.
    digest = blake2b(struct.pack("<qqq", seed, sequence_index, position), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> (64 - _DOUBLE_BITS)) * 2.0**-_DOUBLE_BITS


def request_seed(request: Request, engine_seed: int) -> int:
    """The request's own seed; without one, 64 bits that follow from the engine's seed and the request's id."""
    if request.params.seed is not None:
        return request.params.seed
    # An id may hold any text a caller sends, also half of a surrogate pair.
    text = f"{engine_seed}/{request.request_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


def uniform_for_next_token(sequence: Sequence, engine_seed: int) -> float:
    """The uniform number for the token that will follow the sequence's last known one."""
    return uniform(request_seed(sequence.request, engine_seed), sequence.index, sequence.num_tokens)
