"""A training of a few steps, from the corpus to a checkpoint that both engines load."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from minivllm.config import EngineConfig
from minivllm.runtime.loader import load_model


@pytest.fixture(scope="module")
def checkpoint(tool, tmp_path_factory):
    out = tmp_path_factory.mktemp("house")
    options = tool("train").TrainingOptions(
        steps=3, layers=2, batch_tokens=128, row_lengths=((0.5, 32), (1.0, 64)), warmup_steps=1,
        copy_steps=1, tokenizer_documents=150, save_every_s=0.0,
    )  # fmt: skip
    tool("train").train(options, out)
    return out


def test_a_checkpoint_is_complete_in_bf16_and_readable_for_every_user(checkpoint):
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype="auto")
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    load_model(EngineConfig(model=str(checkpoint), device="cpu"))
    assert (checkpoint / "model.safetensors").stat().st_mode & 0o777 == 0o644
