"""With a host tier and without: the same tokens, whatever the sampling, the pool and the KV dtype.

A real model runs, so a block that comes back with other bytes, or in another place, shows.
"""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.engine.sampled_traffic import REQUESTS, STEM, Apart, pool_for, speculative, tokens_of

from minivllm.events.state import Counters

PROMPT = [*STEM, *range(60, 90)]
TURNS = [
    (turn[:length], {"n": n, "temperature": 0.7, "max_tokens": 12, "ignore_eos": True}, 9 * i)
    for i, (turn, length, n) in enumerate(
        [(PROMPT, 40, 3), (PROMPT[::-1], 44, 1), (PROMPT, 44, 1), (PROMPT[::-1], 48, 2)] * 2
    )
]
"""Two conversations that push each other out of the pool, and come back."""


ALL_THAT_HAPPENS = {
    "requests": TURNS, "num_spare_blocks": -9, "extra": {"num_cpu_blocks": 60},
}  # fmt: skip


@pytest.mark.parametrize("number", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_random_traffic_gives_the_same_tokens_with_a_second_memory(tiny, number: int) -> None:
    totals: list[Counters] = []

    @settings(max_examples=number, derandomize=True, database=None)
    @example(**ALL_THAT_HAPPENS, options={"max_num_batched_tokens": 24})
    @example(**ALL_THAT_HAPPENS, options={"kv_cache_dtype": "int8"})
    @example(**ALL_THAT_HAPPENS | {"extra": None}, options={"kv_cache_dtype": "int8"})
    @given(
        requests=REQUESTS,
        num_spare_blocks=st.integers(0, 6),
        extra=st.none()
        | st.fixed_dictionaries(
            {"num_cpu_blocks": st.integers(1, 60), "lazy_offload": st.booleans()}
        ),
        options=st.fixed_dictionaries(
            {
                "speculative_config": st.none() | speculative(),
                "max_num_batched_tokens": st.integers(8, 64),
                "kv_cache_dtype": st.sampled_from(["auto", "int8"]),
            }
        ),
    )
    def check(requests, num_spare_blocks, extra, options) -> None:
        """extra: the options of the host tier; None for prefill apart from decode"""
        options = options | pool_for(requests, num_spare_blocks)
        plain, _ = tokens_of(tiny, requests, **options)
        tier = {"kv_connector": "SimpleCPUOffloadConnector", "kv_connector_extra_config": extra}
        second = {"make": Apart} if extra is None else {"kv_transfer_config": tier}
        tiered, counters = tokens_of(tiny, requests, **second, **options)
        assert tiered == plain
        totals.append(counters)

    check()
    for happened in totals[:3]:  # in the traffic that is the same in every run
        assert happened.external_prefix_cache_hits > 50 and happened.num_preemptions
