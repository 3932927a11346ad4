"""Each router's strength, measured on the same requests."""

from support.engine.simulated_crowds import CPU, run

from minivllm.lab.simulate.measure import summarise
from minivllm.lab.simulate.workload import CrowdOptions, at_rate, draw_crowd

UNEVEN = {"num_prompts": 400, "random_input_len": 48, "random_output_len": 48}
UNEVEN |= {"random_range_ratio": 0.9, "burstiness": 0.5}
GROUPED = {"num_prompts": 300, "random_input_len": 16, "random_output_len": 16}
GROUPED |= {"random_prefix_len": 128, "prefix_groups": 12}


LONG = {"num_prompts": 200, "random_input_len": 400, "random_output_len": 40}


def served(options: dict, rate: float, router: str, **engines: object) -> dict:
    crowd = at_rate(draw_crowd(CrowdOptions(**options, seed=3), 512), rate)
    return summarise(run(crowd, CPU, router=router, **engines or {"replicas": 4}), {})


def test_prefill_apart_from_decode_gives_steady_tokens_and_later_first_ones():
    mixed = served(LONG, 1.0, "least-loaded", replicas=3)
    apart = served(LONG, 1.0, "least-loaded", apart=(2, 1))
    assert apart["p99_itl_ms"] < 0.6 * mixed["p99_itl_ms"]
    assert apart["p50_ttft_ms"] > mixed["p50_ttft_ms"]


def test_the_least_loaded_replica_gives_short_tails_and_the_prefix_aware_one_finds_prefixes():
    random, least = (served(UNEVEN, 5.0, router) for router in ("random", "least-loaded"))
    assert least["p99_ttft_ms"] < 0.7 * random["p99_ttft_ms"]
    names = ("random", "least-loaded", "prefix-aware")
    *others, aware = (served(GROUPED, 6.0, router)["prefix_hit_rate"] for router in names)
    assert aware > 1.3 * max(others)
