"""The workloads of `minivllm bench throughput`: who asks for what, from a seed alone.

Prompts are random token ids and every request runs to its `max_tokens` (end-of-sequence is
ignored), so the work is the same for every engine, and neither text nor luck with a short answer
moves the result. No model and no torch here.

Easy to get wrong: the prefix cache. It must start each round cold, or from the second round on we
would measure hits that no first-time user sees. So each round has *fresh tokens* drawn from (seed,
round), and nothing needs a reset: what the cache still holds of earlier rounds matches no prompt of
this one. The lengths come from the seed alone, so all rounds are equally much work and can be
compared.

Sizes: `docs/performance.md` and the issue that set the targets.
"""

from dataclasses import dataclass, replace
from random import Random

MAX_NUM_SEQS = 16
"""Batch slots of our engine and size of the peer's static batches, in each of `WORKLOADS`."""


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """How many requests, and how long they are. Lengths in tokens, (lowest, highest), both
    included.
    """

    name: str
    num_requests: int
    prompt_len: tuple[int, int]
    """Each request's own prompt tokens, after the shared ones."""
    output_len: tuple[int, int]
    shared_prefix_len: int = 0
    """Tokens with which every prompt begins."""


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """One request: exactly `max_tokens` tokens are wanted after `prompt_token_ids`."""

    prompt_token_ids: list[int]
    max_tokens: int


WORKLOADS: dict[str, WorkloadSpec] = {
    spec.name: spec
    for spec in (
        # A full batch in lockstep: the engine's steady state.
        WorkloadSpec("decode", num_requests=16, prompt_len=(64, 64), output_len=(64, 64)),
        # Mixed lengths, more requests than slots: what continuous batching is for.
        WorkloadSpec("ragged", num_requests=32, prompt_len=(16, 256), output_len=(8, 128)),
        # One long system prompt, many users: what the prefix cache is for.
        WorkloadSpec(
            "shared-prefix",
            num_requests=16,
            prompt_len=(16, 16),
            output_len=(32, 32),
            shared_prefix_len=512,
        ),
        # One user alone: what the engine's own overhead costs.
        WorkloadSpec("single", num_requests=1, prompt_len=(128, 128), output_len=(128, 128)),
    )
}

NANO_VLLM = WorkloadSpec(
    "nano-vllm", num_requests=256, prompt_len=(100, 1024), output_len=(100, 1024)
)
"""What nano-vllm publishes its speed with (its `bench.py`): for a GPU, with its own batch sizes and
peers.
"""


def quick(spec: WorkloadSpec) -> WorkloadSpec:
    """The same with a quarter of all lengths, and a name that says so: its ratios are other
    ones.
    """

    def quarter(length: tuple[int, int]) -> tuple[int, int]:
        return (max(1, length[0] // 4), max(1, length[1] // 4))

    return replace(
        spec,
        name=f"{spec.name}-quick",
        prompt_len=quarter(spec.prompt_len),
        output_len=quarter(spec.output_len),
        shared_prefix_len=spec.shared_prefix_len // 4,
    )


def make_requests(
    spec: WorkloadSpec, seed: int, round_number: int, vocab_size: int
) -> list[BenchRequest]:
    """The requests of one round. Same arguments, same requests, on every machine and Python
    version.

    Token ids are from 0 to `vocab_size - 1`.
    """
    # `Random` takes a string through SHA-512: no two (seed, round) pairs start alike, as sums of
    # them would.
    lengths = Random(f"{spec.name}/lengths/{seed}")
    tokens = Random(f"{spec.name}/tokens/{seed}/{round_number}")
    shared = _draw(tokens, spec.shared_prefix_len, vocab_size)
    return [
        BenchRequest(
            prompt_token_ids=shared + _draw(tokens, lengths.randint(*spec.prompt_len), vocab_size),
            max_tokens=lengths.randint(*spec.output_len),
        )
        for _ in range(spec.num_requests)
    ]


def count_output_tokens(requests: list[BenchRequest]) -> int:
    """Tokens that the requests want, together: the numerator of every tokens-per-second."""
    return sum(request.max_tokens for request in requests)


def _draw(rng: Random, number: int, vocab_size: int) -> list[int]:
    return [rng.randrange(vocab_size) for _ in range(number)]
