"""Fixtures for all tests: the models that are used in many places."""

import contextlib
from pathlib import Path

import pytest

# Imports Triton, if it is installed, in the mode that this machine can run. Later would be too late: model classes of
# transformers, which many test modules import, import Triton too, and where there is no GPU it must interpret.
with contextlib.suppress(ModuleNotFoundError):
    import minivllm.kernels.mode  # noqa: F401

from minivllm.runtime.model_store import resolve_model


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The directory of SmolLM2-135M-Instruct, from the model cache; fetched if this is the first time."""
    return resolve_model("smollm2")


@pytest.fixture(scope="session")
def tiny_random_path() -> Path:
    """The directory of the tiny random Llama, made on the spot."""
    return resolve_model("tiny-random")
