"""With an int8 or bfloat16 KV cache, too, scheduling changes no token, and no bit of a logprob.

Rounding makes last bits visible: a key that rounds up in one schedule and down in another would be
a different number. So the CPU kernels must give the same bits in every schedule.
"""

import pytest
from support.engine.identity_runs import SCHEDULES
from support.model.needs import cpu_ops

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.loader import LoadedModel, load_model
from minivllm.sampling_params import SamplingParams

OTHERS = {
    "chunks of 16": SCHEDULES["chunks of 16"],
    "blocks of 8": SCHEDULES["blocks of 8"],
    "without prefix caching": SCHEDULES["without prefix caching"],
    "preempted": {"num_gpu_blocks_override": 17},
    "drafts": {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}},
}
SHARED = "Where does Mia live? Mia lives in the red house. Where does Ben live? "
PROMPTS = [SHARED + "Ben lives", SHARED, "The capital of", SHARED + "Ada and Ben and"]
KINDS = {
    "greedy": {"temperature": 0, "logprobs": 1, "max_tokens": 90},
    "samples": {"temperature": 0.9, "seed": 7, "n": 3, "max_tokens": 24, "logprobs": 1},
    "beams": {"n": 3, "beam_width": 3, "max_tokens": 10},
}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    cpu_ops()  # other products depend on the batch
    return load_model(EngineConfig(model="house", device="cpu"))


def run(model: LoadedModel, kind: str, **options: object) -> tuple[dict, LLMEngine]:
    options = {"max_num_seqs": 8, "num_gpu_blocks_override": 256, **options}
    config = EngineConfig(
        model="house", device="cpu", max_model_len=256, kv_cache_dtype=kind, check_invariants=True,
        **options,
    )  # fmt: skip
    engine = LLMEngine.from_model(config, model)
    for name, params in KINDS.items():
        if name == "beams" and config.speculative_config is not None:
            continue  # no drafts for beams
        for number, prompt in enumerate(PROMPTS):
            engine.add_request(
                f"{name} {number}", prompt, SamplingParams(ignore_eos=True, **params)
            )
    found: dict[str, list] = {}
    while engine.has_unfinished_requests():
        for output in engine.step():
            found[output.request_id] = [(out.token_ids, out.logprobs) for out in output.outputs]
    return found, engine


@pytest.mark.parametrize("kind", ["int8", "bfloat16"])
def test_scheduling_changes_no_bit_with_a_smaller_kv_cache(model, kind):
    expected, engine = run(model, kind)
    assert engine.inspect().counters.copied_blocks > 0
    exact, _ = run(model, "auto")
    assert exact != expected, "the cache must be rounded"
    for name, options in OTHERS.items():
        outputs, engine = run(model, kind, **options)
        assert outputs == {key: expected[key] for key in outputs}, name
        assert engine.inspect().counters.num_preemptions > 0 or name != "preempted"
