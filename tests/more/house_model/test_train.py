"""A training of a few steps, from the corpus to a checkpoint that both engines load."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from minivllm import LLM, SamplingParams
from minivllm.runtime.checkpoint.checkpoint import check_checkpoint

PROMPTS = ["Ada was a", "Count from 3 to 9.", "zoë ✓ 42"]


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
    check_checkpoint(checkpoint)
    assert (checkpoint / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_minivllm_and_transformers_write_the_same_tokens(checkpoint):
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    params = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
    ours = LLM(model=str(checkpoint), dtype="float32").generate(PROMPTS, params)
    for prompt, output in zip(PROMPTS, ours, strict=True):
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        theirs = model.generate(ids, do_sample=False, max_new_tokens=12, eos_token_id=None)
        assert list(output.outputs[0].token_ids) == theirs[0, ids.shape[1] :].tolist()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_any_text_is_the_same_after_encoding_and_decoding(checkpoint, text):
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
