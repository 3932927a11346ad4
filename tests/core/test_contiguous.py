"""The contiguous baseline: each sequence reserves one first-fit run for the longest length."""

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output

from minivllm.errors import ConfigError, InvalidSamplingParamsError


def contiguous(**options: object) -> WatchedEngine:
    """Blocks of 4 tokens, 16 tokens per sequence: each reserves 4 blocks."""
    return WatchedEngine(
        **{"kv_cache_allocator": "contiguous", "max_model_len": 16, "num_blocks": 13, **options}
    )


def test_each_sequence_reserves_the_first_run_of_maximum_length_and_freed_runs_merge():
    engine = contiguous(num_blocks=17)
    for name, max_tokens in (("a", 2), ("b", 2), ("c", 9)):
        engine.add(name, [1, 2], max_tokens=max_tokens)
    engine.step()
    assert engine.table("a") == [0, 1, 2, 3]
    assert engine.table("b") == [4, 5, 6, 7]
    engine.step()
    assert sorted(engine.fold.free_queue) == [*range(8), *range(12, 17)]
    engine.add("d", [5], max_tokens=9)
    engine.step()
    assert engine.table("d") == [0, 1, 2, 3]


def test_prefix_caching_is_off_by_default_and_refused_on_request():
    assert contiguous().config.enable_prefix_caching is False
    with pytest.raises(ConfigError, match="cannot share blocks"):
        contiguous(enable_prefix_caching=True)


@pytest.mark.parametrize(
    "params", [{"n": 2}, {"n": 1, "best_of": 3}, {"n": 2, "use_beam_search": True}]
)
def test_requests_with_several_sequences_are_refused(params):
    engine = contiguous()
    with pytest.raises(InvalidSamplingParamsError, match="contiguous allocator cannot share"):
        engine.add("a", [1, 2], max_tokens=3, **params)
    assert engine.events == []


def test_a_cache_smaller_than_one_reservation_is_an_error_at_the_start():
    with pytest.raises(ConfigError, match="reserves max_model_len"):
        contiguous(num_blocks=3)
    engine = contiguous(num_blocks=4)
    engine.add("a", [1, 2], max_tokens=3)
    engine.run()
    assert engine.token_ids("a") == expected_output([1, 2], 3)
