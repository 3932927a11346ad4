"""The host's memory of a `FakeRunner`: stores are copied at once, loads as late as they may be."""

from collections.abc import Callable

from minivllm.core.scheduler_output import BlockCopy
from minivllm.kv_transfer.host_tier import Copier
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
