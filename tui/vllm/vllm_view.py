"""`VllmView`: what a vLLM server's metrics and KV events reveal, and how certain that is.

vLLM reports sums, and the names of blocks that enter or leave its prefix cache. Block tables,
reference counts and reasons to wait cannot be derived from these reports. A number that vLLM does
not report is None.

vLLM can report the same name twice, for two blocks or after a hit. If such a name is removed once,
it may or may not be cached still. After a lost batch, all names may be wrong and are forgotten.
"""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

from minivllm.events.vllm_kv_wire import (
    AllBlocksCleared,
    BlockName,
    BlockRemoved,
    BlockStored,
    KVEvent,
)
from minivllm.tui.vllm.kv import Numbered
from minivllm.tui.vllm.metrics import Scrape

WINDOW_SECONDS = 30.0
"""Rates and latencies cover this time."""
MOST_NAMES = 200_000
"""Limit for faulty publishers that never remove names; larger than any real pool."""


@dataclass(slots=True)
class NamedBlock:
    parent: BlockName | None
    medium: str | None
    batch: int
    """Number of the batch that reported the block."""
    times_stored: int = 1
    unsure: bool = False
    """Stored several times and removed fewer times, so the block may or may not be cached."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A range that a histogram guarantees: the value is greater than `low` and at most `high`."""

    low: float
    high: float
    """Can be infinite."""


class VllmView:
    def __init__(self) -> None:
        self.scrape: Scrape | None = None
        self._window: deque[Scrape] = deque()
        self.blocks: dict[tuple[str | None, BlockName], NamedBlock] = {}
        """(medium, name) -> block, in the order of the reports."""
        self.last_number: int | None = None
        self.num_lost_batches = 0
        self.knows_all_names = False
        """Whether no batch was lost since the cache was last cleared."""
        self.num_stored = self.num_removed = self.num_unknown_removed = self.num_unknown_kinds = 0

    # ---- metrics ----

    def take_scrape(self, scrape: Scrape) -> None:
        if self.scrape is not None and _counters_fell(self.scrape, scrape):
            self._window.clear()  # the server was restarted
        self.scrape = scrape
        self._window.append(scrape)
        while scrape.t - self._window[0].t > WINDOW_SECONDS:
            self._window.popleft()

    def value(self, name: str) -> float | None:
        return None if self.scrape is None else self.scrape.values.get(name)

    def rate(self, counter: str) -> float | None:
        """A counter's increase per second over the last `WINDOW_SECONDS`."""
        then, now = self._ends()
        if then is None or counter not in then.values or counter not in now.values:
            return None
        return (now.values[counter] - then.values[counter]) / (now.t - then.t)

    def share(self, part: str, whole: str) -> float | None:
        """The increase of counter `part` divided by the increase of `whole`, over the same time."""
        part_rate, whole_rate = self.rate(part), self.rate(whole)
        return part_rate / whole_rate if part_rate is not None and whole_rate else None

    def quantile(self, histogram: str, share: float) -> Quantile | None:
        """A quantile of the values in the last `WINDOW_SECONDS`; None if there are no values."""
        then, now = self._ends()
        if then is None or histogram not in now.buckets:
            return None
        before = then.buckets.get(histogram, {})
        counts = [
            (bound, count - before.get(bound, 0.0))
            for bound, count in sorted(now.buckets[histogram].items())
        ]
        total = counts[-1][1]
        if total <= 0:
            return None
        for (low, _), (high, count) in pairwise([(0.0, 0.0), *counts]):
            if count >= share * total:
                return Quantile(low, high)
        return None

    def _ends(self) -> tuple[Scrape | None, Scrape | None]:
        if len(self._window) < 2:
            return None, None
        return self._window[0], self._window[-1]

    @property
    def num_blocks(self) -> int | None:
        reported = "" if self.scrape is None else self.scrape.cache_config.get("num_gpu_blocks", "")
        return int(reported) if reported.isdecimal() and len(reported) < 12 else None

    # ---- names of blocks ----

    def take_batch(self, numbered: Numbered) -> None:
        number, batch = numbered
        if self.last_number is not None and number != self.last_number + 1:
            # Too high a number means lost batches, a lower one a restart: names may be wrong.
            self.num_lost_batches += max(number - self.last_number - 1, 0)
            self._forget()
        self.last_number = number
        self.num_unknown_kinds += batch.num_unknown
        for event in batch.events:
            self._take_event(event, number)

    def _forget(self) -> None:
        self.blocks.clear()
        self.knows_all_names = False

    def _take_event(self, event: KVEvent, number: int) -> None:
        match event:
            case BlockStored():
                self._stored(event, number)
            case BlockRemoved():
                for name in event.block_hashes:
                    self._removed((event.medium, name))
            case AllBlocksCleared():
                self.blocks.clear()
                self.knows_all_names = True

    def _stored(self, event: BlockStored, number: int) -> None:
        parent = event.parent_block_hash
        for name in event.block_hashes:
            self.num_stored += 1
            known = self.blocks.get((event.medium, name))
            if known is not None:
                known.times_stored += 1
                known.unsure = False
            elif len(self.blocks) < MOST_NAMES:
                self.blocks[event.medium, name] = NamedBlock(parent, event.medium, number)
            else:
                self.knows_all_names = False
            parent = name

    def _removed(self, key: tuple[str | None, BlockName]) -> None:
        self.num_removed += 1
        known = self.blocks.get(key)
        if known is None:
            self.num_unknown_removed += 1  # the block was stored before we connected
        elif known.times_stored > 1:
            known.times_stored -= 1
            known.unsure = True
        else:
            del self.blocks[key]

    @property
    def num_unsure(self) -> int:
        return sum(block.unsure for block in self.blocks.values())


def _counters_fell(before: Scrape, after: Scrape) -> bool:
    return any(
        after.values.get(name, value) < value
        for name, value in before.values.items()
        if name.endswith("_total")
    )
