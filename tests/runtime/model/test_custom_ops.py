"""The decoder with fused operations equals the plain one; the configuration chooses them."""

import pytest
import torch
from support.model.needs import NO_TRITON, cpu_ops
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.model.tiny_models import PlannedRunner, load_into_ours, make_peer, steps_of_all_kinds

from minivllm.config import EngineConfig
from minivllm.errors import ConfigError
from minivllm.runtime.model.custom_ops import ALL_KERNELS, DecoderOps, choose_kernels, make_ops


def check_fused(name: str, backend: str, asked: str) -> None:
    """Compare the logits with those of torch's operations, in steps of all kinds."""
    decoder = load_into_ours(make_peer(name))
    plain = PlannedRunner(decoder, max_num_seqs=4, attention_backend="torch", custom_ops=["none"])
    fused = PlannedRunner(decoder, max_num_seqs=4, attention_backend=backend, custom_ops=[asked])
    for ours, theirs in zip(steps_of_all_kinds(fused), steps_of_all_kinds(plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        *((name, "all") for name in ("llama-heads-of-16", "gemma3-heads-of-16")),
        *(("qwen3", asked) for asked in ("all", "rms_norm", "rotary_and_cache", "silu_and_mul")),
    ],
)
def test_operations_in_c_give_the_logits_of_the_plain_decoder(name, asked):
    """Those in Triton: tests/runtime/test_cuda_graphs.py."""
    cpu_ops()
    check_fused(name, "cpu", asked)


def test_fused_kernels_are_the_default_only_on_cuda_with_triton():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert choose_kernels(None, "triton:static", cuda) == ALL_KERNELS
    assert not choose_kernels(None, "torch", cuda)
    assert not choose_kernels(None, "triton:split", cpu)
    assert not choose_kernels(["none"], "triton:static", cuda)
    assert choose_kernels(["all"], "triton:split", cpu) == ALL_KERNELS
    norm_act = pytest.importorskip("minivllm.kernels.norm_act", reason=NO_TRITON)
    norms = DecoderOps(norm_act.rms_norm, norm_act.add_rms_norm)
    assert make_ops(["rms_norm", "rotary_and_cache"], "triton:split") == norms


@pytest.mark.parametrize("ops", [["gelu"], [], ["all", "rms_norm"], ["none", "silu_and_mul"]])
def test_operations_that_do_not_exist_or_contradict_each_other_are_refused(ops):
    with pytest.raises(ConfigError, match="custom_ops"):
        EngineConfig(custom_ops=ops)
