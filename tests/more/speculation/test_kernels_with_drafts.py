"""Triton's kernels, interpreted, and their graphs give the same tokens with drafts, too."""

import pytest
from support.engine.sampled_traffic import STEM, tokens_of
from support.model.needs import NO_TRITON

mode = pytest.importorskip("minivllm.kernels.mode", reason=NO_TRITON)
pytestmark = pytest.mark.skipif(
    not mode.INTERPRETED, reason="kernels are compiled here, and this engine is on the CPU"
)
NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}
MODEL = {"method": "draft_model", "num_speculative_tokens": 3, "model": "tiny-random"}


@pytest.mark.parametrize("config", [NGRAM, MODEL], ids=lambda config: config["method"])
@pytest.mark.parametrize("backend", ["triton:split", "triton:unified"])
def test_every_attention_kernel_verifies_several_rows_of_a_sequence(tiny, backend, config) -> None:
    requests = [(STEM, {"temperature": t, "max_tokens": 4, "seed": 3}, 0) for t in (0.0, 1.0)]
    options = {"num_gpu_blocks_override": 20, "attention_backend": backend}
    plain, _ = tokens_of(tiny, requests, **options)
    drafted, counters = tokens_of(tiny, requests, **options, speculative_config=config)
    assert drafted == plain and counters.spec_decode_num_drafts > 0
