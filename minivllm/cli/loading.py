"""`loading`: the slow first step of every command that runs a model.

Some libraries ignore a Ctrl-C during their import and stay half loaded, which causes errors later.
So a Ctrl-C takes effect only after the import of torch.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine


def load_engine(config: EngineConfig) -> LLMEngine:
    with loading(config.model):
        return LLMEngine.from_config(config)


@contextmanager
def loading(model: str) -> Iterator[None]:
    """Import torch, then run the context. On a terminal, a spinner is shown."""
    with _spinner(f"Loading {model} ...") if sys.stderr.isatty() else nullcontext():
        with _ctrl_c_waits():
            import_module("minivllm.runtime.model_runner")
        yield


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
