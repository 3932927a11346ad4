"""The decoder with fused operations equals the plain one; the configuration chooses them."""

import pytest
import torch
from support.model.one_thread import one_thread
from support.model.tiny_models import (
    PEERS,
    PlannedRunner,
    load_into_ours,
    make_peer,
    steps_of_all_kinds,
)

from minivllm.config import EngineConfig
from minivllm.errors import ConfigError
from minivllm.kernels import norm_act, reference_ops
from minivllm.kernels.cpu.ops import LANES
from minivllm.kernels.mode import INTERPRETED
from minivllm.runtime.model.custom_ops import TORCH_OPS, DecoderOps, choose_ops

__all__ = ["one_thread"]

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
ALL = DecoderOps(
    norm_act.rms_norm, norm_act.add_rms_norm, norm_act.silu_and_mul, attention_rotates=True
)


@pytest.mark.skipif(not INTERPRETED, reason="the tiny models are on the CPU")
@pytest.mark.parametrize("backend", ["triton", "cpu"])
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        *((name, "all") for name in PEERS),
        *(("qwen3", one) for one in ("rms_norm", "rotary_and_cache", "silu_and_mul")),
    ],
)
def test_fused_operations_give_the_logits_of_the_plain_decoder(name, asked, backend):
    decoder = load_into_ours(make_peer(name))
    if backend == "cpu" and decoder.config.head_size % LANES:
        pytest.skip("heads of such a size are torch's")
    plain = PlannedRunner(decoder, max_num_seqs=4, attention_backend="torch", custom_ops=["none"])
    fused = PlannedRunner(decoder, max_num_seqs=4, attention_backend=backend, custom_ops=[asked])
    for ours, theirs in zip(steps_of_all_kinds(fused), steps_of_all_kinds(plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_every_operation_of_the_forward_pass_uses_the_chosen_implementation():
    decoder = load_into_ours(make_peer("qwen3"))
    calls: list[str] = []

    def counted(name: str) -> object:
        return lambda *arguments: (calls.append(name), getattr(reference_ops, name)(*arguments))[1]

    ops = DecoderOps(
        *map(counted, ("rms_norm", "add_rms_norm", "silu_and_mul")), attention_rotates=True
    )
    angles_seen = []

    def attend(
        layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cos_sin: tuple
    ) -> torch.Tensor:
        angles_seen.append(cos_sin[0].shape)
        return q

    hidden = decoder(torch.tensor([1, 2]), torch.tensor([0, 1]), attend, ops)
    decoder.compute_logits(hidden, ops)
    num_layers = decoder.config.num_hidden_layers
    assert angles_seen == [(2, 1, decoder.config.head_size)] * num_layers
    # the first norm of the first layer, and the last norm; torch norms the heads
    assert calls.count("rms_norm") == 2
    assert calls.count("add_rms_norm") == 2 * num_layers - 1
    assert calls.count("silu_and_mul") == num_layers


def test_fused_kernels_are_the_default_only_on_cuda_with_triton():
    assert choose_ops(None, "triton:static", CUDA) == ALL
    assert choose_ops(None, "torch", CUDA) == TORCH_OPS
    assert choose_ops(None, "triton:split", CPU) == TORCH_OPS
    assert choose_ops(["none"], "triton:static", CUDA) == TORCH_OPS
    assert choose_ops(["all"], "triton:split", CPU) == ALL


@pytest.mark.parametrize(
    "ops", [["gelu"], [], "all", ["all", "rms_norm"], ["none", "silu_and_mul"], [["all"]]]
)
def test_operations_that_do_not_exist_or_contradict_each_other_are_refused(ops):
    with pytest.raises(ConfigError, match="custom_ops"):
        EngineConfig(custom_ops=ops)
