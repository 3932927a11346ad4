"""llama.cpp reads the same GGUF file: the same token ids, and the same logits."""

import json

import pytest
import torch
from support.model import gguf_files
from support.model import tokenizer_files as files
from support.model.tiny_models import PlannedRunner

from minivllm.config import EngineConfig
from minivllm.runtime.checkpoint.gguf_conversion import convert_gguf
from minivllm.runtime.loader import load_model
from minivllm.runtime.progress import silent

pytest.importorskip("llama_cpp")

from support.model.llama_cpp_peer import logits, token_ids


@pytest.mark.parametrize("arch", gguf_files.ARCHITECTURES)
def test_the_recorded_ids_are_those_of_llama_cpp(tmp_path, arch):
    found = {}
    for name in [*files.BYTE_LEVEL_RULES, *files.SENTENCEPIECE]:
        files.write_tokenizer(tmp_path / "m.gguf", name, arch)
        found[name] = files.digests(token_ids(tmp_path / "m.gguf"))
    assert found == json.loads(files.RECORDED.read_text())


@pytest.mark.parametrize("arch", gguf_files.ARCHITECTURES)
def test_a_file_has_the_logits_of_llama_cpp(tmp_path, arch):
    path, directory = tmp_path / "m.gguf", tmp_path / "out"
    gguf_files.write_gguf(path, arch)
    directory.mkdir()
    convert_gguf(path, directory, silent)
    prompt = torch.randint(3, 200, (150,), generator=torch.Generator().manual_seed(0)).tolist()
    expected = torch.from_numpy(logits(path, prompt)[-1])
    model = load_model(EngineConfig(model=str(directory), dtype="float32"))
    run = PlannedRunner(model.decoder, max_model_len=256)
    found = run.run((run.new(prompt), len(prompt)))[0]
    assert torch.allclose(found, expected, atol=1e-4 * float(expected.abs().max()))
