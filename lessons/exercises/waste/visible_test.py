"""The README's examples as tests, for `pytest visible_test.py`."""

from math import isclose

from kv_usage import KVUsage, KVUsageMeter

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lessons.checker.cases.toy import ToyRunner, ToyTokenizer
from minivllm.sampling_params import SamplingParams


def first_step(num_blocks, max_model_len, **options):
    """Return the measurement of Ada's first step: 5 tokens, max_tokens=3, no other request."""
    config = EngineConfig(model="toy", block_size=4, enable_prefix_caching=False, **options)
    engine = LLMEngine(
        config, ToyRunner(num_blocks, 4, max_model_len), ToyTokenizer(), clock=VirtualClock()
    )
    meter = KVUsageMeter(engine.log_header())
    engine.subscribe(meter.apply)
    engine.add_request(
        "ada", {"prompt_token_ids": [1, 2, 3, 4, 5]}, SamplingParams(temperature=0, max_tokens=3)
    )
    engine.step()
    return meter.samples[0]


def usage(used, reserved, internal):
    return KVUsage(1, 0.0, 100, used, reserved, internal, 0, 1, 1, 1)


def test_waste_is_what_is_allocated_and_not_used():
    assert usage(5, 2, 5).allocated == 12
    assert isclose(usage(5, 2, 5).waste, 7 / 12)
    assert usage(0, 0, 0).waste == 0


def test_a_reservation_is_mostly_waste():
    ada = first_step(8, max_model_len=12, kv_cache_allocator="contiguous")
    assert (ada.used, ada.reserved, ada.internal) == (5, 2, 5)


def test_what_is_left_of_a_run_is_of_no_use():
    ada = first_step(8, max_model_len=12, kv_cache_allocator="contiguous")
    assert ada.external == 8


def test_with_blocks_only_the_last_one_has_room_to_spare():
    ada = first_step(8, max_model_len=12)
    assert (ada.used, ada.reserved, ada.internal, ada.external) == (5, 2, 1, 0)
