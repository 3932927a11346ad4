"""minivllm: a small, fast LLM inference engine that shows what it is doing.

    from minivllm import LLM, SamplingParams

The names in `__all__` are imported on first use, so `import minivllm` alone takes milliseconds and
needs no torch.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

from minivllm.version import __version__ as __version__

_HOMES = {
    "LLM": "llm", "LLMEngine": "engine.engine", "EngineConfig": "config",
    "SamplingParams": "sampling_params", "RequestOutput": "outputs", "CompletionOutput": "outputs",
}  # fmt: skip
__all__ = [*_HOMES]

TYPE_CHECKING = False  # editors and type checkers take it as true; `typing` is slow to import
if TYPE_CHECKING:
    from minivllm.config import EngineConfig as EngineConfig
    from minivllm.engine.engine import LLMEngine as LLMEngine
    from minivllm.llm import LLM as LLM
    from minivllm.outputs import CompletionOutput as CompletionOutput
    from minivllm.outputs import RequestOutput as RequestOutput
    from minivllm.sampling_params import SamplingParams as SamplingParams


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A package's `__getattr__`, which imports a name on first use. homes: name -> its module"""

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get


__getattr__ = lazy_names(__name__, _HOMES)
