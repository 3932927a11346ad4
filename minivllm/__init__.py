"""minivllm: a small, fast LLM inference engine that shows what it is doing.

    from minivllm import LLM, SamplingParams

The names in `__all__` are imported on first use, so `import minivllm` alone takes milliseconds and
needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from minivllm.version import __version__ as __version__

_HOMES = {
    "LLM": "minivllm.llm",
    "LLMEngine": "minivllm.engine.engine",
    "EngineConfig": "minivllm.config",
    "SamplingParams": "minivllm.sampling_params",
    "RequestOutput": "minivllm.outputs",
    "CompletionOutput": "minivllm.outputs",
}
__all__ = [
    "LLM", "CompletionOutput", "EngineConfig", "LLMEngine", "RequestOutput", "SamplingParams",
]  # fmt: skip

if TYPE_CHECKING:
    from minivllm.config import EngineConfig
    from minivllm.engine.engine import LLMEngine
    from minivllm.llm import LLM
    from minivllm.outputs import CompletionOutput, RequestOutput
    from minivllm.sampling_params import SamplingParams


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'minivllm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
