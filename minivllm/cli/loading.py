"""`loading`: the slow first step of every command that runs a model.

A command that opens the dashboard uses `load_parts` and `build_engine` in the engine's thread; they
tell the dashboard what they do. The others show a spinner.

Some libraries ignore a Ctrl-C during their import and stay half loaded, which causes errors later.
So a Ctrl-C takes effect only after the import of torch.
"""

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.progress import format_bytes
from minivllm.text import format_memory

if TYPE_CHECKING:
    from minivllm.runtime.loader import LoadedModel

Tell = Callable[[str, str, float], None]
"""(part of the start, what is being done or the result, the fraction that is done)"""
PARTS = ("PyTorch", "Kernels", "Model", "Weights", "KV cache")


def load_engine(config: EngineConfig) -> LLMEngine:
    with loading(config.model):
        return LLMEngine.from_config(config)


def build_engine(config: EngineConfig, tell: Tell) -> LLMEngine:
    """Load the model and allocate the KV cache, as `LLMEngine.from_config` does."""
    model = load_parts(config, tell)
    tell("KV cache", "reserving memory", 0.0)
    engine = LLMEngine.from_model(config, model)
    header = engine.log_header()
    memory = format_memory(header.num_blocks * header.block_bytes)
    blocks = (
        f"{header.num_blocks:,} blocks of {header.block_size} tokens in {header.kv_cache_dtype}"
    )
    tell("KV cache", f"{blocks}, {memory}", 1.0)
    return engine


def load_parts(config: EngineConfig, tell: Tell) -> "LoadedModel":
    """Import torch, then load kernels and model. Not in the main thread, which gets signals."""
    tell("PyTorch", "importing", 0.0)
    loader = import_module("minivllm.runtime.loader")
    import_module("minivllm.runtime.model_runner")
    tell("PyTorch", loader.torch.__version__, 1.0)
    tell("Kernels", "loading, or building at the first start", 0.0)
    tell("Kernels", _load_kernels(config), 1.0)

    def on_read(num_read: int, num_bytes: int) -> None:
        text = f"{format_bytes(num_read)} of {format_bytes(num_bytes)}"
        tell("Weights", text, num_read / max(num_bytes, 1))

    tell("Model", "finding its files", 0.0)
    model = loader.load_model(config, lambda sentence: tell("Model", sentence, 0.0), on_read)
    tell("Model", f"{model.name} {model.weights}", 1.0)
    return model


def _load_kernels(config: EngineConfig) -> str:
    """Load the kernels that the model will ask for, and return a description."""
    import torch

    if config.device != "cpu" and torch.cuda.is_available():
        return "Triton's, compiled at their first use"
    if not {config.linear_backend, config.attention_backend} & {"auto", "cpu"}:
        return "PyTorch's own"
    from minivllm.kernels.cpu.library import CpuKernelsError
    from minivllm.runtime.cpu.load import load_cpu_ops

    try:
        load_cpu_ops()
    except CpuKernelsError as error:
        # An option that insists on them raises this later, with the option's name.
        return f"PyTorch's own: {error}"
    return "minivllm's own, in C"


@contextmanager
def loading(model: str) -> Iterator[None]:
    """Import torch, then run the context. On a terminal, a spinner is shown."""
    with _spinner(f"Loading {model} ...") if sys.stderr.isatty() else nullcontext():
        with _ctrl_c_waits(), _collects_no_garbage():
            import_module("minivllm.runtime.model_runner")
        yield


@contextmanager
def _collects_no_garbage() -> Iterator[None]:
    """Imports make many objects and drop few: looking for cycles takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _spinner(text: str) -> Iterator[None]:
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    pressed = []
    usual = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if pressed:
        raise KeyboardInterrupt
