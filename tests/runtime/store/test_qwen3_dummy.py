"""`qwen3-0.6b-dummy`: Qwen3-0.6B's shape for both engines, and no weights."""

import math

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from minivllm.config import EngineConfig
from minivllm.errors import UnsupportedModelError
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.loader import load_model
from minivllm.runtime.model.weight_map import weight_shards
from minivllm.runtime.store.model_store import resolve_model
from minivllm.runtime.text.tokenizer import Tokenizer

NAME = "qwen3-0.6b-dummy"


@pytest.fixture(scope="module")
def directory():
    return resolve_model(NAME, weights=False)


def test_both_sides_read_the_published_number_of_parameters(directory) -> None:
    shards = weight_shards(read_model_config(directory))
    assert sum(math.prod(shard.shape) for shard in shards.values()) == 596_049_920
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory))
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == {
        name: shard.shape for name, shard in shards.items()
    }


def test_every_token_has_a_text_of_its_own_and_text_is_bytes(directory) -> None:
    tokenizer = Tokenizer.from_directory(directory)
    assert tokenizer.vocab_size == 151936
    assert len({tokenizer.decode([token_id]) for token_id in range(300, 151936, 97)}) == len(range(300, 151936, 97))
    ids = tokenizer.encode("aaaa é")
    assert len(ids) == 7 and tokenizer.decode(ids) == "aaaa é"
    assert AutoTokenizer.from_pretrained(directory).encode("aaaa é") == ids


def test_to_load_it_without_dummy_weights_is_an_error_that_says_how() -> None:
    with pytest.raises(UnsupportedModelError, match="--load-format dummy"):
        load_model(EngineConfig(model=NAME, device="cpu"))
