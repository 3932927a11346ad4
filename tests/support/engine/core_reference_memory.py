"""`PlainMemory`: blocks, owners, names and free queue, for `core_reference`; and its plain data.

A block's name is the salt and every token up to the block's end. Owners are counted in the block
tables each time.
"""

from dataclasses import dataclass, field
from hashlib import sha256

from minivllm.config import EngineConfig
from minivllm.core.request import Request
from minivllm.events import types as ev

Name = tuple[str | None, tuple[int, ...]]  # The salt, and all tokens up to the end of the block.


@dataclass(eq=False)
class Sharer:
    """What the memory knows about a sequence."""

    name: str
    salt: str | None
    tokens: list[int]
    table: list[int] = field(default_factory=list)
    num_computed: int = 0
    num_cached: int = 0
    num_named: int = 0  # Blocks of its table that have a name.
    computes_all: bool = False
    """It needs the log-probabilities of its prompt, so it takes nothing from the cache."""


class PlainMemory:
    """All blocks. Changes are written to `out`, in the order of the engine's events."""

    def __init__(self, config: EngineConfig, num_blocks: int, max_model_len: int) -> None:
        self.size, self.num_blocks = config.block_size, num_blocks
        self.caches = config.enable_prefix_caching
        self.reserved = (
            -(-max_model_len // self.size) if config.kv_cache_allocator == "contiguous" else 0
        )
        """Size of the contiguous reservation of each sequence; 0 means paged blocks."""
        self.free = list(range(num_blocks))
        self.names: dict[int, Name] = {}
        """By block, in the order of naming."""
        self.evicted: list[Name] = []
        """Evicted contents, oldest first; at most as many as there are blocks."""
        self.copies: dict[int, int] = {}
        """Copies of this step, from destination to source."""
        self.out: list[tuple] = []
        self._tables: list[list[int]] = []

    def owners(self, block: int) -> int:
        return sum(table.count(block) for table in self._tables)

    def blocks_for(self, num_tokens: int) -> int:
        return (num_tokens + self.size - 1) // self.size

    def name_of(self, sequence: Sharer, logical: int) -> Name:
        return sequence.salt, tuple(sequence.tokens[: (logical + 1) * self.size])

    def full_names(self, sequence: Sharer, num_tokens: int) -> list[Name]:
        return [self.name_of(sequence, i) for i in range(num_tokens // self.size)]

    # ---- asking ----

    def hits(self, sequence: Sharer) -> list[int]:
        """Cached blocks of its longest known prefix. Of equal blocks, the one named first."""
        hits = []
        if self.caches and not sequence.computes_all:
            for wanted in self.full_names(sequence, len(sequence.tokens)):
                holders = [block for block, name in self.names.items() if name == wanted]
                if not holders:
                    break
                hits.append(holders[0])
        return hits

    def lacks(
        self, sequence: Sharer, num_tokens: int, hits: list[int] | None = None, num_copies: int = 0
    ) -> tuple[int, int] | None:
        """Return (blocks needed, blocks free) if there are too few. Free hits count as needed."""
        if self.reserved:
            longest = max([len(run) for run in self._runs()], default=0)
            return None if sequence.table or longest >= self.reserved else (self.reserved, longest)
        hits = hits or []
        need = max(self.blocks_for(num_tokens) - len(sequence.table) - len(hits), 0) + num_copies
        need += sum(block in self.free for block in hits) + self._must_copy(sequence)
        return (need, len(self.free)) if need > len(self.free) else None

    def _must_copy(self, sequence: Sharer) -> bool:
        written_next = sequence.num_computed // self.size
        return written_next < len(sequence.table) and self.owners(sequence.table[written_next]) > 1

    def _runs(self) -> list[list[int]]:
        runs: list[list[int]] = []
        for block in sorted(self.free):
            if runs and runs[-1][-1] + 1 == block:
                runs[-1].append(block)
            else:
                runs.append([block])
        return runs

    # ---- changing ----

    def extend(self, sequence: Sharer, num_tokens: int, hits: list[int] | None = None) -> None:
        """Take blocks for the first `num_tokens` tokens: a copy first, then hits, then new ones."""
        if self.reserved:
            runs = [] if sequence.table else self._runs()
            run = next((run for run in runs if len(run) >= self.reserved), [])
            for block in run[: self.reserved]:
                self._hand_out(block)
                self.out.append((ev.BlockAllocated, block, sequence.name, len(sequence.table)))
                sequence.table.append(block)
            self.join(sequence)
            return
        if self._must_copy(sequence):
            logical = len(sequence.table) - 1
            shared, own = sequence.table[logical], self._hand_out(self.free[0])
            self.copies[own] = shared
            sequence.table[logical] = own
            self.out.append((ev.BlockCopied, shared, own, sequence.name, logical))
        for block in hits or []:
            was_free = block in self.free
            if was_free:
                self.free.remove(block)
            self.out.append((ev.BlockHit, block, sequence.name, len(sequence.table), was_free))
            sequence.table.append(block)
        sequence.num_named += len(hits or [])
        self.join(sequence)
        while len(sequence.table) < self.blocks_for(num_tokens):
            block = self._hand_out(self.free[0])
            self.out.append((ev.BlockAllocated, block, sequence.name, len(sequence.table)))
            sequence.table.append(block)

    def join(self, sequence: Sharer) -> None:
        """Count this block table from now on."""
        if not any(table is sequence.table for table in self._tables):
            self._tables.append(sequence.table)

    def _hand_out(self, block: int) -> int:
        self.free.remove(block)
        self.forget(block)
        return block

    def forget(self, block: int) -> None:
        """Remove the block's name. Record the eviction unless another block has the same name."""
        name = self.names.pop(block, None)
        if name is not None:
            self.out.append((ev.BlockEvicted, block, self.digest(name)))
            if name not in self.names.values():
                self.evicted = [*self.evicted, name][-self.num_blocks :]

    def release(self, sequence: Sharer) -> None:
        """Free from the last block to the first. Named blocks are reused last, others next."""
        self._shorten(sequence, 0)
        self._tables = [table for table in self._tables if table is not sequence.table]
        sequence.num_named = 0

    def _shorten(self, sequence: Sharer, length: int) -> None:
        ended, sequence.table[length:] = sequence.table[length:][::-1], []
        self.out += [(ev.BlockReleased, block, sequence.name) for block in ended]
        free = [block for block in ended if self.owners(block) == 0]
        named = [block for block in free if block in self.names]
        others = [block for block in free if block not in self.names]
        self.free = [*others, *self.free, *named]
        self.out += [(ev.BlockFreed, block, "tail") for block in named]
        self.out += [(ev.BlockFreed, block, "head") for block in reversed(others)]

    def shrink(self, sequence: Sharer) -> None:
        """Free the blocks that its computed and cached tokens do not need."""
        needed = self.blocks_for(max(sequence.num_computed, sequence.num_cached))
        self._shorten(sequence, self.reserved or needed)

    def give_names(self, sequence: Sharer) -> None:
        """Name the blocks that its computed tokens have filled."""
        if not self.caches:
            return
        num_tokens = min(sequence.num_computed, len(sequence.tokens))  # drafts get no name
        names = self.full_names(sequence, num_tokens)
        for logical, name in list(enumerate(names))[sequence.num_named :]:
            block = sequence.table[logical]
            self.names[block] = name
            self.evicted = [other for other in self.evicted if other != name]
            parent = self.digest(self.name_of(sequence, logical - 1)) if logical else None
            self.out.append((ev.BlockHashed, block, self.digest(name), parent, None))
            sequence.num_named += 1

    def explain_the_miss(self, sequence: Sharer, hits: list[int]) -> None:
        names = self.full_names(sequence, len(sequence.tokens))
        if not self.caches:
            why = "caching_off"
        elif sequence.computes_all:
            why = "prompt_logprobs"
        elif not names:
            why = "prompt_shorter_than_a_block"
        elif len(hits) == len(names):
            return
        else:
            why = "evicted" if names[len(hits)] in self.evicted else "never_seen"
        self.out.append((ev.BlockMissed, sequence.name, len(hits), why))

    def digest(self, name: Name) -> str:
        """The first 16 hex digits of the SHA-256 chain over the blocks of `name`, salt included."""
        salt, tokens = name
        chained = bytes(32)
        for start in range(0, len(tokens), self.size):
            block = tokens[start : start + self.size]
            content = b"".join(token.to_bytes(4, "little") for token in block)
            if salt is not None and start == 0:
                raw = salt.encode("utf-8", "surrogatepass")
                content += b"|cache_salt:%d:" % len(raw) + raw
            chained = sha256(chained + content).digest()
        return chained.hex()[:16]


@dataclass(eq=False)
class Asked:
    """A request and its share of the batch."""

    name: str
    given: Request
    num_to_fork: int
    sequences: list["Plain"] = field(default_factory=list)
    kept_slots: set[int] = field(default_factory=set)
    next_index: int = 1


@dataclass(eq=False)
class Plain(Sharer):
    """A sequence. `state`: waiting, running, preempted or ended."""

    asked: Asked = None
    index: int = 0
    state: str = "waiting"
    slot: int | None = None
    why_deferred: tuple = ()
    drafts: list[int] = field(default_factory=list)
    """Drafts of this step; once they are verified, the accepted ones that are not appended yet."""

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.asked.given.priority, self.asked.given.arrival_number, self.index
