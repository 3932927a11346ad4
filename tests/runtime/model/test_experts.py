"""Mixtures of experts: what the event `moe.routed` counts, and that a batch changes no token."""

from unittest.mock import Mock

import pytest
import torch
from support.engine.followed_run import FollowedRun
from support.engine.identity_runs import peer_of

from minivllm.config import EngineConfig
from minivllm.events import types as ev
from minivllm.runtime.loader import load_model
from minivllm.runtime.model.decoder import ExpertRouter

PROMPTS = {"long": list(range(40, 77)), "short": list(range(80, 86)), "one": [99]}
TOP_K = 2


def load(**options):
    return load_model(EngineConfig(model="tiny-moe", dtype="float32", device="cpu", **options))


@pytest.fixture(scope="module")
def model():
    return load()


class Run(FollowedRun):
    def __init__(self, model, prompts=PROMPTS, **options):
        super().__init__(model, num_gpu_blocks_override=32, **options)
        for name, prompt in prompts.items():
            self.add(name, prompt, {"temperature": 0, "max_tokens": 9})


def test_the_counts_of_a_prompt_are_those_of_transformers(model):
    run = Run(model, {"long": PROMPTS["long"]})
    run.engine.record_attention_mass(True)
    run.step()
    (event,) = run.of(ev.ExpertsRouted)
    peer = peer_of("tiny-moe")
    with torch.no_grad():
        found = peer(torch.tensor([PROMPTS["long"]]), output_router_logits=True).router_logits
    expected = [
        logits.topk(TOP_K).indices.flatten().bincount(minlength=8).tolist() for logits in found
    ]
    assert event.counts == expected


def test_each_watched_step_has_one_event_and_the_tokens_stay_the_same(model):
    watched, silent = (Run(model, max_num_batched_tokens=16) for _ in range(2))
    watched.engine.record_attention_mass(True)
    events, plans = watched.finish().of(ev.ExpertsRouted), watched.of(ev.StepEnd)
    assert watched.outputs == silent.finish().outputs
    assert silent.of(ev.ExpertsRouted) == []
    assert [event.step for event in events] == [plan.step for plan in plans]
    for event, plan in zip(events, plans, strict=True):
        assert [sum(counts) for counts in event.counts] == [TOP_K * plan.used] * 4


def test_a_layer_with_one_mlp_has_no_counts_and_a_dense_model_no_event(model):
    dense = load_model(EngineConfig(model="tiny-random", dtype="float32", device="cpu"))
    mixed = load()
    mixed.decoder.layers[1].mlp = dense.decoder.layers[1].mlp
    runs = Run(mixed), Run(dense)
    for run in runs:
        run.engine.record_attention_mass(True)
        run.step()
    (event,) = runs[0].of(ev.ExpertsRouted)
    assert [len(counts) for counts in event.counts] == [8, 0, 8, 8]
    assert runs[1].of(ev.ExpertsRouted) == []


def test_after_a_step_whose_model_failed_no_router_is_watched(model, monkeypatch):
    run = Run(model)
    run.engine.record_attention_mass(True)
    run.step()
    with monkeypatch.context() as patch:
        failing = Mock(side_effect=RuntimeError("the model failed"))
        patch.setattr(model.decoder.layers[2].mlp, "forward", failing)
        run.step()
    assert len(run.of(ev.ExpertsRouted)) == 1
    routers = [part for part in model.decoder.modules() if isinstance(part, ExpertRouter)]
    assert [len(router._forward_hooks) for router in routers] == [0] * 4


@pytest.mark.parametrize("quantization", [None, "int8"])
def test_a_batch_and_steps_of_single_tokens_give_the_tokens_of_each_prompt_alone(quantization):
    """An int8 router chooses other experts than a float32 one, but the same in every batch."""
    model = load(quantization=quantization)
    together = Run(model).finish().outputs
    for name, prompt in PROMPTS.items():
        alone = Run(model, {name: prompt}, max_num_batched_tokens=1, max_num_seqs=1).finish()
        assert alone.outputs[name] == together[name]
