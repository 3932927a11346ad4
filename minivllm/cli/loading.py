"""`loading`: what every command that runs a model does first, and the one part of it that takes
seconds.

The easy thing to get wrong is a Ctrl-C that falls into an import. Some libraries swallow it and go
on with half a module, which then fails somewhere else; so while torch is imported it is only noted,
and obeyed right after.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine


def load_engine(config: EngineConfig) -> LLMEngine:
    """The engine of `config`."""
    with loading(config.model):
        return LLMEngine.from_config(config)


@contextmanager
def loading(model: str) -> Iterator[None]:
    """Load `model` inside: torch is imported already, and where somebody looks they are told what
    takes so long.
    """
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
    """A Ctrl-C inside is obeyed at the end."""
    pressed = []
    usual = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if pressed:
        raise KeyboardInterrupt
