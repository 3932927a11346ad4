"""Everything that computes: models, KV cache, attention, sampling, and reading model files.

Most of it needs torch, whose import takes a second. A room that starts without torch writes `from
minivllm import runtime`; the names in `__all__` are imported on first use (`runtime.load_model`).
"""

from importlib import import_module
from typing import TYPE_CHECKING

_HOMES = {
    "Explanation": "sampling.explanation", "KVCacheSpec": "kv_cache", "LoadedModel": "loader",
    "ModelRunner": "model_runner", "Tokenizer": "text.tokenizer", "load_model": "loader",
}  # fmt: skip
__all__ = ["Explanation", "KVCacheSpec", "LoadedModel", "ModelRunner", "Tokenizer", "load_model"]

if TYPE_CHECKING:
    from minivllm.runtime.kv_cache import KVCacheSpec
    from minivllm.runtime.loader import LoadedModel, load_model
    from minivllm.runtime.model_runner import ModelRunner
    from minivllm.runtime.sampling.explanation import Explanation
    from minivllm.runtime.text.tokenizer import Tokenizer


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'minivllm.runtime' has no attribute {name!r}")
    return getattr(import_module(f"minivllm.runtime.{_HOMES[name]}"), name)
