"""`qwen3-0.6b-dummy`: Qwen3-0.6B's shape for both engines, without weights."""

import math

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from minivllm.config import EngineConfig
from minivllm.errors import UnsupportedModelError
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.loader import load_model
from minivllm.runtime.model.weight_map import weight_shards
from minivllm.runtime.store.model_store import resolve_model

NAME = "qwen3-0.6b-dummy"


@pytest.fixture(scope="module")
def directory():
    return resolve_model(NAME, weights=False)


def test_both_sides_read_the_published_number_of_parameters(directory):
    shards = weight_shards(read_model_config(directory))
    assert sum(math.prod(shard.shape) for shard in shards.values()) == 596_049_920
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory))
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == {
        name: shard.shape for name, shard in shards.items()
    }


def test_loading_it_without_dummy_weights_gives_an_error_with_the_right_option():
    with pytest.raises(UnsupportedModelError, match="--load-format dummy"):
        load_model(EngineConfig(model=NAME, device="cpu"))
