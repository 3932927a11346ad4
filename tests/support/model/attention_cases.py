"""Paged-cache steps for any attention backend. Slots that no query may read hold NaN."""

from dataclasses import dataclass, field

import numpy as np
import torch

from minivllm.kernels.reference import paged_attention, reshape_and_cache
from minivllm.runtime.input_batch import CommonAttentionMetadata

HEAD_SIZE = 16


@dataclass
class Seq:
    """A sequence of the step: cached tokens, new tokens, and perhaps a shared prefix."""

    num_computed: int
    num_new: int = 1
    prefix_of: int | None = None
    num_shared_blocks: int = 0
    is_all_cached: bool = False
    """The keys and values of its new tokens are already cached: slot -1."""


@dataclass
class StepCase:
    """A step over a cache with blocks in scrambled order, in float64 for the reference."""

    seqs: list[Seq]
    block_size: int = 4
    num_kv_heads: int = 2
    group: int = 3
    seed: int = 0
    head_size: int = HEAD_SIZE
    window: int = 0
    """How many tokens a token sees; 0 for all. Tokens that nobody sees in the step are NaN, too."""
    block_tables: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.num_blocks = 3 + sum(
            -(-(seq.num_computed + seq.num_new) // self.block_size) for seq in self.seqs
        )
        free = torch.randperm(self.num_blocks, generator=generator).tolist()
        for seq in self.seqs:
            shared = [] if seq.prefix_of is None else self.block_tables[seq.prefix_of]
            table = shared[: seq.num_shared_blocks]
            while len(table) * self.block_size < seq.num_computed + seq.num_new:
                table.append(free.pop())
            self.block_tables.append(table)

        def random(*shape: int) -> torch.Tensor:
            # Representable in every dtype under test, so that rounding starts with the computation.
            return torch.randn(*shape, generator=generator).bfloat16().double()

        cache_shape = (self.num_blocks, self.block_size, self.num_kv_heads, self.head_size)
        self.key_cache, self.value_cache = (
            torch.full(cache_shape, float("nan")).double() for _ in range(2)
        )
        for i, seq in enumerate(self.seqs):
            # Write position by position, but not the shared prefix: its owner writes that.
            first_own = seq.num_shared_blocks * self.block_size
            slots = self.slots(i, first_own, seq.num_computed + seq.num_new * seq.is_all_cached)
            entries = random(2, len(slots), self.num_kv_heads, self.head_size)
            reshape_and_cache(*entries, self.key_cache, self.value_cache, torch.tensor(slots))

        if self.window:
            seen = {
                slot
                for i, seq in enumerate(self.seqs)
                for slot in self.slots(
                    i, max(seq.num_computed + 1 - self.window, 0), seq.num_computed + seq.num_new
                )
            }
            unseen = sorted(set(range(self.num_blocks * self.block_size)) - seen)
            for cache in (self.key_cache, self.value_cache):
                cache.flatten(0, 1)[unseen] = float("nan")

        self.query_start_loc = [0, *np.cumsum([seq.num_new for seq in self.seqs]).tolist()]
        num_tokens = self.query_start_loc[-1]
        self.query = random(num_tokens, self.num_kv_heads * self.group, self.head_size)
        self.key, self.value = random(2, num_tokens, self.num_kv_heads, self.head_size)
        self.slot_mapping: list[int] = []
        for i, seq in enumerate(self.seqs):
            slots = self.slots(i, seq.num_computed, seq.num_computed + seq.num_new)
            self.slot_mapping += [-1] * seq.num_new if seq.is_all_cached else slots

    def slots(self, i: int, first: int, end: int) -> list[int]:
        size = self.block_size
        return [self.block_tables[i][p // size] * size + p % size for p in range(first, end)]

    def cos_sin(self, num_tokens: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Angles of zero: the cases compare bits of the cache, and rotation would round them."""
        shape = (num_tokens, 1, self.head_size)
        return torch.ones(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)

    def reference(self) -> torch.Tensor:
        """Write to this case's caches and attend: [num_tokens, num_heads, head_size] in float64."""
        reshape_and_cache(
            self.key, self.value, self.key_cache, self.value_cache, torch.tensor(self.slot_mapping)
        )
        width = max(map(len, self.block_tables))
        tables = torch.tensor([table + [-1] * (width - len(table)) for table in self.block_tables])
        seq_lens = [seq.num_computed + seq.num_new for seq in self.seqs]
        step = (self.key_cache, self.value_cache, tables, self.query_start_loc, seq_lens)
        return paged_attention(self.query, *step, scale=self.head_size**-0.5, window=self.window)

    def metadata(self) -> CommonAttentionMetadata:
        width = max(map(len, self.block_tables))
        # Entries past a table's end are stale ids of other sequences' blocks.
        tables = np.zeros((len(self.seqs), width), dtype=np.int64)
        for i, table in enumerate(self.block_tables):
            tables[i, : len(table)] = table
        return CommonAttentionMetadata(
            query_start_loc=np.array(self.query_start_loc),
            num_computed_tokens=np.array([seq.num_computed for seq in self.seqs]),
            block_tables=tables,
            slot_mapping=np.array(self.slot_mapping),
        )


SHARING = {
    "all decodes share": [Seq(150), *(Seq(145 + i, 1, 0, 36) for i in range(4))],
    "a group within a group": [
        Seq(150), Seq(290, 1, 0, 32), Seq(285, 1, 1, 70), Seq(300, 1, 1, 70), Seq(140, 1, 0, 32)
    ],
    "decodes, chunks and an unrelated sequence": [
        Seq(150), Seq(20), Seq(144, 5, 0, 36), Seq(148, 2, 0, 36), Seq(145, 1, 0, 36)
    ],
    "a chunk that fills what others read": [
        Seq(100, 60), Seq(160, 1, 0, 40), Seq(160, 3, 0, 40), Seq(164, 1, 0, 40)
    ],
}  # fmt: skip


def random_case(seed: int) -> tuple[list[Seq], dict[str, int]]:
    """Some sequences that share blocks, and the options of a case; some have a window."""
    rng = np.random.default_rng(seed)
    block_size = int(rng.choice([1, 3, 4, 16]))
    seqs: list[Seq] = []
    for _ in range(rng.integers(1, 9)):
        num_new = int(rng.choice([1, 1, 1, 2, 7, 20]))
        parent = int(rng.integers(len(seqs))) if seqs and rng.random() < 0.6 else None
        if parent is None:
            seqs.append(Seq(int(rng.integers(0, 200)), num_new))
            continue
        # Only full blocks can be shared: cached ones, or ones filled in this step.
        num_full = (seqs[parent].num_computed + seqs[parent].num_new) // block_size
        shared = int(rng.integers(0, num_full + 1))
        seqs.append(Seq(shared * block_size + int(rng.integers(0, 40)), num_new, parent, shared))
    options = {"block_size": block_size, "group": int(rng.choice([1, 3, 4, 7])), "seed": seed}
    return seqs, options | {"window": (0, 9, 0, 33, 0, 0, 70, 1)[seed % 8]}
