"""A second memory of a `FakeRunner`: stores are copied at once, loads as late as they may be."""

import struct
from collections.abc import Callable
from contextlib import suppress
from io import BufferedRWPair, BytesIO
from itertools import accumulate
from random import Random

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy
from minivllm.kv_transfer.host_tier import Copier
from minivllm.kv_transfer.wire import WRONG, RemoteFetch, digest, send
from support.engine.engine_fakes import FakeRunner


class FakeHost(Copier):
    """A load writes its blocks only when it ends. So a block that was given to another sequence in
    the meantime is overwritten, and the runner sees it.
    """

    def __init__(self, runner: FakeRunner, delay: Callable[[], int]) -> None:
        """delay: how many steps a load takes besides the one that begins it"""
        self.runner, self.delay = runner, delay
        self.held: dict[int, list[int | None]] = {}

    def copy(self, stores: list[BlockCopy], loads: list[BlockCopy], overwritten: bool) -> "_Mark":
        for store in stores:
            self.held[store.dst] = self.runner.block(store.src)
        return _Mark(self, loads, self.delay() if loads else 0)

    def write(self, loads: list[BlockCopy]) -> None:
        size = self.runner.block_size
        for load in loads:
            slots = range(load.dst * size, (load.dst + 1) * size)
            self.runner.kv.update(zip(slots, self.held[load.src], strict=True))


class _Mark:
    def __init__(self, host: FakeHost, loads: list[BlockCopy], num_steps: int) -> None:
        self.host, self.loads, self.num_steps = host, loads, num_steps

    def query(self) -> bool:
        """Called once in each step."""
        self.num_steps -= 1
        if self.num_steps < 0:
            self.synchronize()
        return self.num_steps < 0

    def synchronize(self) -> None:
        self.host.write(self.loads)
        self.loads = []


class FakeBytes:
    """As `BlockBytes`."""

    def __init__(self, runner: FakeRunner) -> None:
        self.runner, self.packed = runner, struct.Struct(f"{runner.block_size}q")

    def read(self, block_id: int) -> bytes:
        return self.packed.pack(*self.runner.block(block_id))

    def write(self, block_id: int, content: bytes) -> None:
        first = block_id * self.runner.block_size
        self.runner.kv.update(enumerate(self.packed.unpack(content), first))


class FakeFetch(RemoteFetch):
    """What the engine that has computed a prompt sends, often damaged, after some steps."""

    def __init__(
        self, sequence: Sequence, hashes: list[bytes], memory: FakeBytes, rng: Random, longest: int
    ) -> None:
        self.blocks, self.num_steps = [], rng.randint(0, longest)
        self._question, self._block_bytes = ({}, hashes), memory.packed.size
        held = list(accumulate(sequence.token_ids, lambda *both: hash(both), initial=0))[1:]
        size, end = memory.runner.block_size, sequence.num_prompt_tokens
        starts = range(0, end - size + 1, size)[-len(hashes) :]
        blocks = [memory.packed.pack(*held[start : start + size]) for start in starts]
        send(stream := BytesIO(), ("", blocks, digest(hashes, blocks)))
        sent = bytearray(stream.getvalue())
        if rng.random() < 0.5:
            at = rng.randrange(len(sent))
            sent[at:] = rng.choice([b"", b"?", bytes([sent[at] ^ 1]) + sent[at + 1 :]])
        with suppress(*WRONG):
            self.ask(BufferedRWPair(BytesIO(sent), BytesIO()))

    def query(self) -> bool:
        self.num_steps -= 1
        return self.num_steps < 0
