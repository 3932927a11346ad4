"""Small crowds and step-time fits for tests of the simulator."""

from minivllm.config import EngineConfig
from minivllm.lab.simulate.arrivals import Arrival
from minivllm.lab.simulate.fit import Fit
from minivllm.lab.simulate.replica import Replica
from minivllm.lab.simulate.run import Setup, build_replicas, simulate

STEP = 1 / 64
"""Seconds per step; a power of two, so that sums are exact."""
EVEN = Fit((STEP, *[0.0] * 8))
"""Every step takes `STEP` seconds."""
CPU = Fit((0.02, *[0.001] * 6, 0.0005, 1e-7))
"""Roughly a small model on a CPU."""


def config(**options: object) -> EngineConfig:
    usual = {"max_model_len": 512, "num_gpu_blocks_override": 64, "max_num_batched_tokens": 64}
    return EngineConfig(**usual | {"max_num_seqs": 4} | options)


def run(
    crowd: list[Arrival], fit: Fit = EVEN, replicas: int = 1, router: str = "random",
    apart: tuple[float, ...] = (), **options: object,
) -> list[Replica]:  # fmt: skip
    """Serve `crowd` to its end; return the replicas. apart: the last fields of `Setup`"""
    setup = Setup(config(**options), replicas, router, 0, None, None, *apart)
    built = build_replicas(setup, fit)
    simulate(setup, built, crowd)
    return built
