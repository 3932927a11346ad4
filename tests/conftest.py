"""Fixtures for all tests: the models that are used in many places."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

# Imports Triton, if it is installed, in the mode that this machine can run. Later would be too
# late: model classes of transformers, which many test modules import, import Triton too, and where
# there is no GPU it must interpret.
with contextlib.suppress(ModuleNotFoundError):
    import minivllm.kernels.mode  # noqa: F401

from minivllm.runtime.store.model_store import resolve_model

# For every test, and before any of them is read: how long an example takes says how busy this
# machine is.
settings.register_profile("minivllm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("minivllm")

# A shell that starts us in the background has Ctrl-C ignored, and processes that tests start and
# interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from minivllm.runtime.loader import LoadedModel


@pytest.fixture(scope="module", autouse=True)
def what_is_there_is_not_looked_through_again() -> None:
    """Models and recordings stay for the whole session: each collection of garbage would look for
    some among them.
    """
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def these_tests_keep_their_turns() -> Iterator[None]:
    """`minivllm attach` makes its process give way to others, and here that would be all tests that
    come after it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "nice", lambda increment: 0)
        yield


@pytest.fixture(autouse=True)
def each_test_leaves_as_many_threads_as_it_found() -> Iterator[None]:
    """`bench` and `compare` ask for two. Left behind in both of pytest's workers, they would wait
    for one another spinning, and every operation after that would take ten times as long.
    """
    torch = sys.modules.get("torch")
    found = torch.get_num_threads() if torch else int(os.environ.get("OMP_NUM_THREADS", 0))
    yield
    if found and (torch := sys.modules.get("torch")):
        torch.set_num_threads(found)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The directory of SmolLM2-135M-Instruct, from the model cache; fetched if this is the first
    time.
    """
    return resolve_model("smollm2")


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> LoadedModel:
    """SmolLM2 in our own decoder, in float32 on the CPU."""
    from support.engine.identity_runs import BASE

    from minivllm.runtime.loader import load_model

    return load_model(BASE)


@pytest.fixture(scope="session")
def smollm2_peer(smollm2_path: Path) -> PreTrainedModel:
    """The same weights in transformers."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(smollm2_path, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def tiny_random_path() -> Path:
    """The directory of the tiny random Llama, made on the spot."""
    return resolve_model("tiny-random")
