"""All layers in one call of C give the bits of the decoder's own loop, which calls each kernel."""

import pytest
import torch
from support.model import tiny_models
from support.model.needs import cpu_ops
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.runtime.cpu.layers import CpuLayers
from minivllm.runtime.model.decoder import Decoder
from minivllm.runtime.step_result import WATCH_NOTHING, Watch

KINDS = [("float32", "auto"), ("float32", "int8"), ("bfloat16", "auto")]
ONE_BY_ONE = ["rms_norm", "silu_and_mul", "rotary_and_cache"]
"""All kernels by name: the same operations, but not fused to one call."""


@pytest.mark.parametrize(("dtype", "kv_cache_dtype"), KINDS)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_one_call_gives_the_bits_of_the_kernels_one_by_one(dtype, kv_cache_dtype, num_threads):
    cpu_ops()
    peer = tiny_models.make_peer("llama-heads-of-16")
    decoder = Decoder(tiny_models.config_of(peer), getattr(torch, dtype), "cpu")
    # The products of queries, keys and values are then of parts in two formats.
    decoder.load_weights(
        (name, weight.bfloat16() if "k_proj" in name else weight)
        for name, weight in peer.state_dict().items()
    )
    options = {"attention_backend": "cpu", "kv_cache_dtype": kv_cache_dtype, "max_num_seqs": 4}
    fused = tiny_models.PlannedRunner(decoder, **options)
    plain = tiny_models.PlannedRunner(decoder, **options, custom_ops=ONE_BY_ONE)
    assert isinstance(fused.runner._forward, CpuLayers)
    assert not isinstance(plain.runner._forward, CpuLayers)
    torch.set_num_threads(num_threads)
    steps = zip(
        tiny_models.steps_of_all_kinds(fused), tiny_models.steps_of_all_kinds(plain), strict=True
    )
    assert all(torch.equal(ours, theirs) for ours, theirs in steps)
    caches = (run.runner._attention.kv_caches for run in (fused, plain))
    assert all(map(torch.equal, *caches))


def test_a_watched_step_gives_the_bits_of_one_that_nobody_watches():
    cpu_ops()
    decoder = tiny_models.load_into_ours(tiny_models.make_peer("llama-heads-of-16"))
    runs = [tiny_models.PlannedRunner(decoder, attention_backend="cpu") for _ in range(2)]
    watched, silent = (
        run.runner.execute_model(run.plan((run.new([1, 2, 3, 4, 5]), 5)), watch)
        for run, watch in zip(runs, (Watch(attention_mass=True), WATCH_NOTHING), strict=True)
    )
    assert watched.attention_mass and torch.equal(watched.logits, silent.logits)
