"""Timing an engine on as many requests as fit into a time limit, with a fake clock."""

import pytest
from support.gpu_report_files import HandClock

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.engine_speed import EngineSpeed, time_engine
from minivllm.lab.bench.throughput.workloads import BenchRequest


class SteadyEngine:
    """Takes one second per request and records its calls."""

    name = "steady"

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.asked: list[list[int]] = []

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        self.asked.append([request.max_tokens for request in requests])
        self.clock.seconds += len(requests)
        return [[1] * request.max_tokens for request in requests]


ROUND = [BenchRequest([1, 2], max_tokens) for max_tokens in (100, 10, 30, 40, 50)]


def timed(num_rounds: int = 1, **limits: float | None) -> tuple[EngineSpeed, SteadyEngine]:
    clock = HandClock()
    engine, speed = SteadyEngine(clock), EngineSpeed("steady")
    time_engine(speed, engine, [ROUND] * (num_rounds + 1), clock, **limits)
    return speed, engine


def test_after_the_limit_no_batch_begins_and_the_speed_is_that_of_the_finished_requests():
    speed, engine = timed(num_rounds=2)
    assert engine.asked[1:] == [[100, 10, 30, 40, 50]] * 2
    assert speed.runs == [5.0, 5.0] and speed.tokens_per_s == 46.0 and not speed.extrapolated
    speed, engine = timed(batch_size=2, limit_s=3)
    assert engine.asked[1:] == [[100, 10], [30, 40]]
    # The second batch ends at 4 s, beyond the limit. It counts, with its time.
    assert speed.runs == [4.0] and speed.requests == [4] and speed.output_tokens == [180]
    assert speed.extrapolated and speed.tokens_per_s == 45.0


def test_an_engine_that_gives_too_few_tokens_has_no_speed():
    class Lazy(SteadyEngine):
        def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
            return [output[:-1] for output in super().generate(requests)]

    clock = HandClock()
    with pytest.raises(BenchError, match="steady did not return all requested tokens"):
        time_engine(EngineSpeed("steady"), Lazy(clock), [ROUND, ROUND], clock)
