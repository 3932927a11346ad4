"""Fixtures for all tests, most of them shared models."""

import contextlib
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from support.suites import pytest_terminal_summary  # a hook of pytest

# Import Triton now, if installed, in the mode for this machine: without a GPU it must interpret.
# Model classes of transformers, which many test modules import, would import it too.
with contextlib.suppress(ModuleNotFoundError):
    import minivllm.kernels.mode

from minivllm.config import EngineConfig
from minivllm.runtime.loader import LoadedModel, load_model
from minivllm.runtime.paths import default_cache_root
from minivllm.runtime.store.model_store import ModelStore, resolve_model

# Where HOME cannot be written, models and kernels are made for this run only.
try:
    default_cache_root().mkdir(parents=True, exist_ok=True)
except OSError:
    os.environ["MINIVLLM_CACHE"] = tempfile.mkdtemp(prefix="minivllm-tests-")

# Turn off hypothesis' deadlines: the duration of an example shows how busy the machine is.
settings.register_profile("minivllm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("minivllm")
# For tools/mutants/run.py, which asks only whether a test fails, and not for a small example.
settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate))

# A background shell starts us with Ctrl-C ignored, and child processes inherit that. Restore it,
# because tests interrupt such processes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def what_is_there_is_not_looked_through_again() -> None:
    """Exclude models and recordings that live for the whole session from garbage collection."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def these_tests_keep_their_turns() -> Iterator[None]:
    """Disable `os.nice`: `minivllm attach` lowers the priority of its process, which is pytest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "nice", lambda increment: 0)
        yield


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without models. The compiled kernels stay: building them again takes ten seconds."""
    kernels = default_cache_root() / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path))
    (tmp_path / "kernels").symlink_to(kernels)
    return tmp_path


@pytest.fixture(autouse=True)
def each_test_leaves_as_many_threads_as_it_found() -> Iterator[None]:
    """Restore torch's thread count, which `bench` and `compare` set to two.

    Two pytest workers with two threads each would spin on each other: every later operation would
    take ten times as long.
    """
    torch = sys.modules.get("torch")
    found = torch.get_num_threads() if torch else int(os.environ.get("OMP_NUM_THREADS", 0))
    yield
    if found and (torch := sys.modules.get("torch")):
        torch.set_num_threads(found)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """Directory of SmolLM2-135M-Instruct. No test downloads it: without it, its tests skip."""
    found = ModelStore().smollm2_if_here()
    if found is None:
        pytest.skip("smollm2 is not on this machine: run `make model` to download it")
    return found


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> LoadedModel:
    """SmolLM2 in our own decoder, in float32 on the CPU."""
    return load_model(EngineConfig(model="smollm2", dtype="float32", device="cpu"))


@pytest.fixture(scope="session")
def tiny_random_path() -> Path:
    """Directory of the tiny random Llama, generated on first use."""
    return resolve_model("tiny-random")


@pytest.fixture(scope="session")
def tiny(tiny_random_path: Path) -> LoadedModel:
    """The tiny random Llama in our own decoder, in float32 on the CPU."""
    return load_model(EngineConfig(model="tiny-random", dtype="float32", device="cpu"))
