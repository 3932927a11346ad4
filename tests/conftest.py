"""Fixtures for all tests: the models that are used in many places."""

from pathlib import Path

import pytest

from minivllm.runtime.model_store import resolve_model


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The directory of SmolLM2-135M-Instruct, from the model cache; fetched if this is the first time."""
    return resolve_model("smollm2")


@pytest.fixture(scope="session")
def tiny_random_path() -> Path:
    """The directory of the tiny random Llama, made on the spot."""
    return resolve_model("tiny-random")
