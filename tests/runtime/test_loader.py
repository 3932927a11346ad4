"""Loading a model: device and dtype, one copy in memory, no code from the model's directory."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import ConfigError, ModelIntegrityError
from minivllm.runtime.loader import load_model
from minivllm.runtime.model.decoder import random_weights


@pytest.fixture
def copied(tiny_random_path, tmp_path) -> Path:
    """A copy of the tiny model that a test may change."""
    return Path(shutil.copytree(tiny_random_path, tmp_path / "model"))


def change_config(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("asked, expected", [("auto", torch.float32), ("bfloat16", torch.bfloat16)])
def test_a_cpu_computes_in_float32_unless_told_otherwise(copied, asked, expected):
    change_config(copied, dtype="float16")
    model = load_model(EngineConfig(model=str(copied), dtype=asked, device="cpu"))
    assert model.dtype == expected
    # In bfloat16, only the matrices are: the hidden states between them are float32.
    assert model.decoder.embed_tokens(torch.tensor([0])).dtype == torch.float32


@pytest.mark.parametrize(
    ("dtype", "size", "tied"), [(torch.float32, 4, True), (torch.bfloat16, 2, False)]
)
def test_a_log_has_the_bytes_of_the_weights_and_of_a_block(copied, dtype, size, tied):
    change_config(copied, tie_word_embeddings=tied)
    options = {"load_format": "dummy", "linear_backend": "torch", "attention_backend": "torch"}
    config = EngineConfig(
        model=str(copied), dtype=str(dtype).removeprefix("torch."), device="cpu",
        num_gpu_blocks_override=7, **options,
    )  # fmt: skip
    model = load_model(config)
    engine = LLMEngine.from_model(config, model)
    weights = [weight for _, weight in random_weights(model.config, 0)]
    num_bytes = sum(weight.numel() * (4 if weight.dim() == 1 else size) for weight in weights)
    assert engine.log_header().weight_bytes == num_bytes  # norms are float32
    caches = engine.core.runner.plain._attention.kv_caches
    assert 7 * engine.log_header().block_bytes == sum(cache.nbytes for cache in caches)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_without_a_device_is_refused_before_anything_is_loaded():
    with pytest.raises(ConfigError, match="no CUDA device"):
        load_model(EngineConfig(model="there-is-no-such-model", device="cuda"))


def test_dummy_weights_need_no_weight_file_and_depend_on_the_seed_alone(copied):
    (copied / "model.safetensors").unlink()
    with pytest.raises(ModelIntegrityError, match=r"no model\.safetensors"):
        load_model(EngineConfig(model=str(copied), device="cpu"))
    options = {"model": str(copied), "device": "cpu", "load_format": "dummy"}
    ids = torch.arange(20)
    first, again, other = (
        load_model(EngineConfig(seed=seed, **options)).decoder.embed_tokens(ids)
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
