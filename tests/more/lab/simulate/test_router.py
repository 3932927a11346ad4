"""Each router's strength, measured on the same requests."""

from collections import Counter

from support.engine.simulated_crowds import CPU, run

from minivllm.lab.simulate.measure import summarise
from minivllm.lab.simulate.workload import Arrival, CrowdOptions, at_rate, draw_crowd

UNEVEN = CrowdOptions(
    num_prompts=400, random_input_len=48, random_output_len=48, random_range_ratio=0.9,
    burstiness=0.5, seed=3,
)  # fmt: skip
GROUPED = CrowdOptions(
    num_prompts=300, random_input_len=16, random_output_len=16, random_prefix_len=128,
    prefix_groups=12, seed=3,
)  # fmt: skip


def test_the_least_loaded_replica_gives_short_tails_and_the_prefix_aware_one_finds_prefixes():
    def served(options: CrowdOptions, rate: float, router: str) -> dict:
        crowd = at_rate(draw_crowd(options, 512), rate)
        return summarise(run(crowd, CPU, replicas=4, router=router), {})

    random, least = (served(UNEVEN, 5.0, router) for router in ("random", "least-loaded"))
    assert least["p99_ttft_ms"] < 0.7 * random["p99_ttft_ms"]
    names = ("random", "least-loaded", "prefix-aware")
    *others, aware = (served(GROUPED, 6.0, router)["prefix_hit_rate"] for router in names)
    assert aware > 1.3 * max(others)


def test_neither_a_popular_prefix_nor_equal_load_sends_all_requests_to_one_replica():
    options = {"random_input_len": 16, "random_output_len": 64, "random_prefix_len": 64}
    crowd = at_rate(draw_crowd(CrowdOptions(num_prompts=200, **options), 512), rate=12.0)
    replicas = run(crowd, CPU, replicas=4, router="prefix-aware")
    assert all(20 < len(replica.finished) < 100 for replica in replicas)
    quiet = [Arrival(10.0 * number, 8, 2) for number in range(40)]
    replicas = run(quiet, CPU, replicas=4, router="least-loaded")
    assert Counter(len(replica.finished) for replica in replicas) == {10: 4}
