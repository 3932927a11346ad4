"""The workloads of `minivllm bench throughput`, drawn from a seed, without a model and torch.

Prompts are random token ids, and every request generates `max_tokens` tokens (end-of-sequence is
ignored), so the work is the same for every engine. Each round draws *new tokens* from (seed,
round), because a round must not hit blocks that an earlier round has cached. Lengths depend only on
the seed, so that all rounds are the same amount of work.
"""

from dataclasses import dataclass, replace
from random import Random

MAX_NUM_SEQS = 16
"""Of all workloads but one: number of our engine's batch slots, and size of the peers' batches."""


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Number and lengths of requests. Lengths are in tokens, (lowest, highest), both included."""

    name: str
    num_requests: int
    prompt_len: tuple[int, int]  # without the shared prefix
    output_len: tuple[int, int]
    shared_prefix_len: int = 0  # tokens at the start of all prompts that are the same in all
    max_num_seqs: int = MAX_NUM_SEQS
    max_num_batched_tokens: int | None = None

    @property
    def max_model_len(self) -> int:
        """The most tokens that a request needs."""
        return self.shared_prefix_len + self.prompt_len[1] + self.output_len[1]


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """A request for exactly `max_tokens` tokens after `prompt_token_ids`."""

    prompt_token_ids: list[int]
    max_tokens: int


NANO_VLLM = "nano-vllm"
WORKLOADS: dict[str, WorkloadSpec] = {
    spec.name: spec
    for spec in (
        # A full batch with equal lengths: the engine's steady state.
        WorkloadSpec("decode", 16, prompt_len=(64, 64), output_len=(64, 64)),
        # Mixed lengths and more requests than slots: continuous batching helps most.
        WorkloadSpec("ragged", 32, prompt_len=(16, 256), output_len=(8, 128)),
        # One long system prompt and many users: the prefix cache helps most.
        WorkloadSpec("shared-prefix", 16, (16, 16), output_len=(32, 32), shared_prefix_len=512),
        # A single user: the engine's own overhead is visible.
        WorkloadSpec("single", 1, prompt_len=(128, 128), output_len=(128, 128)),
        # The workload and the token budget of nano-vllm's published speed (its `bench.py`), for a
        # GPU. It samples at temperature 0.6, we are greedy.
        WorkloadSpec(
            NANO_VLLM, 256, (100, 1024), (100, 1024), max_num_seqs=256, max_num_batched_tokens=16384
        ),
    )
}


def quick(spec: WorkloadSpec) -> WorkloadSpec:
    """Return the workload with a quarter of all lengths. Ratios differ, so its name does, too."""

    lengths = {
        name: tuple(max(1, length // 4) for length in getattr(spec, name))
        for name in ("prompt_len", "output_len")
    }
    shared = spec.shared_prefix_len // 4
    return replace(spec, name=f"{spec.name}-quick", shared_prefix_len=shared, **lengths)


def make_requests(
    spec: WorkloadSpec, seed: int, round_number: int, vocab_size: int
) -> list[BenchRequest]:
    """Return the requests of one round, with token ids from 0 to `vocab_size - 1`."""
    # `Random` hashes a string with SHA-512, so each pair of seed and round gives different numbers.
    # `seed + round_number` would not.
    lengths = Random(f"{spec.name}/lengths/{seed}")
    tokens = Random(f"{spec.name}/tokens/{seed}/{round_number}")

    def draw(number: int) -> list[int]:
        return [tokens.randrange(vocab_size) for _ in range(number)]

    shared, requests = draw(spec.shared_prefix_len), []
    for _ in range(spec.num_requests):
        prompt = shared + draw(lengths.randint(*spec.prompt_len))
        requests.append(BenchRequest(prompt, max_tokens=lengths.randint(*spec.output_len)))
    return requests
