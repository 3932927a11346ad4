"""Each router's strength, measured on the same requests."""

from collections import Counter

from support.engine.simulated_crowds import CPU, run

from minivllm.lab.simulate.measure import summarise
from minivllm.lab.simulate.router import ROUTERS
from minivllm.lab.simulate.workload import Arrival, CrowdOptions, at_rate, draw_crowd

UNEVEN = CrowdOptions(
    num_prompts=400, random_input_len=48, random_output_len=48, random_range_ratio=0.9,
    burstiness=0.5, seed=3,
)  # fmt: skip
GROUPED = CrowdOptions(
    num_prompts=300, random_input_len=16, random_output_len=16, random_prefix_len=128,
    prefix_groups=12, seed=3,
)  # fmt: skip


def test_each_router_is_best_at_what_it_is_for():
    """The least loaded one gives short tails, the prefix-aware one finds prefixes."""
    crowd = at_rate(draw_crowd(UNEVEN, 512), rate=5.0)
    random, least = (
        summarise(run(crowd, CPU, replicas=4, router=name), {})
        for name in ("random", "least-loaded")
    )
    assert least["p99_ttft_ms"] < 0.7 * random["p99_ttft_ms"]
    assert least["p99_e2el_ms"] < random["p99_e2el_ms"]
    crowd = at_rate(draw_crowd(GROUPED, 512), rate=6.0)
    rates = {
        name: summarise(run(crowd, CPU, replicas=4, router=name), {})["prefix_hit_rate"]
        for name in ROUTERS
    }
    assert rates["prefix-aware"] > 1.3 * max(rates["random"], rates["least-loaded"])


def test_one_popular_prefix_does_not_send_all_requests_to_one_replica():
    options = CrowdOptions(
        num_prompts=200, random_input_len=16, random_output_len=64, random_prefix_len=64
    )
    crowd = at_rate(draw_crowd(options, 512), rate=12.0)
    replicas = run(crowd, CPU, replicas=4, router="prefix-aware")
    shares = [len(replica.finished) / 200 for replica in replicas]
    assert max(shares) < 0.5 and min(shares) > 0.1


def test_replicas_with_equal_load_take_turns():
    quiet = [Arrival(10.0 * number, 8, 2) for number in range(40)]
    served = Counter(
        len(replica.finished) for replica in run(quiet, CPU, replicas=4, router="least-loaded")
    )
    assert served == {10: 4}
