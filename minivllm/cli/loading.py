"""The slow first step of every command that runs a model.

A command that opens the dashboard builds its engine in another thread (`starting.py`) and reports
there what it does. The others show a spinner.

Some libraries ignore a Ctrl-C during their import and stay half loaded, which causes errors later.
So a Ctrl-C takes effect only after the import of torch.
"""

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module

from minivllm import runtime
from minivllm.clock import Clock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.progress import Progress


def load_engine(config: EngineConfig) -> LLMEngine:
    with loading(config.model):
        return LLMEngine.from_config(config)


def build_engine(config: EngineConfig, progress: Progress, clock: Clock | None = None) -> LLMEngine:
    """Load the model and allocate the KV cache. Not in the main thread, which gets signals."""
    model = load_model(config, progress)
    progress("reserving memory for the KV cache")
    return LLMEngine.from_model(config, model, clock=clock)


def load_model(config: EngineConfig, progress: Progress) -> "runtime.LoadedModel":
    """Import torch and load the model. Not in the main thread, which gets signals."""
    progress("importing PyTorch")
    kernels, on_cpu = "", runtime.choose_device(config.device).type == "cpu"
    if on_cpu and config.linear_backend == "auto":
        progress("loading the CPU kernels (the first start on a machine also builds them)")
        kernels = runtime.cost_of_no_kernels() or f"kernels: {runtime.load_cpu_ops().description}"
    progress(f"loading {config.model}   {kernels}".rstrip())
    return runtime.load_model(config, progress)


@contextmanager
def loading(model: str) -> Iterator[None]:
    """Import torch, then run the context. On a terminal, a spinner is shown."""
    spinner = nullcontext()
    if sys.stderr.isatty():
        text = f"Loading PyTorch and {model} (a first start also builds the kernels) ..."
        # Rich takes longer to import than most commands need to print their help.
        spinner = import_module("rich.console").Console(stderr=True).status(text)
    with spinner:
        pressed = []
        usual = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
        gc.disable()  # imports drop few objects: looking for cycles takes a tenth of the time
        try:
            import_module("minivllm.runtime.model_runner")
        finally:
            gc.enable()
            signal.signal(signal.SIGINT, usual)
        if pressed:
            raise KeyboardInterrupt
        yield
