"""A training of a few steps, from the corpus to a checkpoint that both engines load."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from minivllm import LLM, SamplingParams
from minivllm.runtime.store.house_model import house_checkpoint

PROMPTS = ["Ada was a", "Count from 3 to 9.", "zoë ✓ 42"]


@pytest.fixture(scope="module")
def checkpoint(tool, tmp_path_factory):
    out = tmp_path_factory.mktemp("house")
    options = tool("train").TrainingOptions(
        steps=3,
        layers=2,
        batch_tokens=128,
        row_lengths=((0.5, 32), (1.0, 64)),
        warmup_steps=1,
        copy_steps=1,
        tokenizer_documents=150,
        save_every_s=0.0,
    )
    tool("train").train(options, out)
    return out


def test_a_checkpoint_has_the_files_of_a_chat_model_in_bf16(checkpoint):
    assert {path.name for path in checkpoint.iterdir()} == {
        "SHA256SUMS",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype="auto")
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert house_checkpoint(checkpoint) == checkpoint, "the digests fit"
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


def test_a_batch_begins_each_row_with_a_document(tool, monkeypatch):
    train, corpus = tool("train"), tool("corpus")
    tokenizer = tool("tokenizer").train_tokenizer(0, 150)
    monkeypatch.setattr(train, "copy_share", lambda options, step: 0.0)
    options = train.TrainingOptions(batch_tokens=256, row_lengths=((1.0, 64),), copy_steps=0)
    ids, weights = train.Batches(tokenizer, options).next(0, 0.0)
    assert ids.shape == weights.shape == (4, 65)
    first = next(corpus.documents(options.seed))
    text = "".join(part for part, _ in first)
    expected = tokenizer.encode(text).ids[:65]
    assert ids[0].tolist()[: len(expected)] == expected


def test_a_training_stops_when_its_time_is_over(tool, tmp_path):
    options = tool("train").TrainingOptions(layers=1, limit_s=1e-9, tokenizer_documents=20)
    tool("train").train(options, tmp_path)
    assert (tmp_path / "model.safetensors").is_file()


def test_training_begins_with_rows_that_only_copying_predicts(tool):
    train = tool("train")
    options = train.TrainingOptions()
    tokenizer = tool("tokenizer").train_tokenizer(0, 20)
    ids, weights = train.Batches(tokenizer, options).next(0, 0.0)
    for row, weight in zip(ids.tolist(), weights.tolist(), strict=True):
        period = weight.index(1.0)
        assert row[period:] == row[:-period]
        assert set(weight[period:]) == {1.0}


def test_random_weights_begin_with_an_induction_head(tool):
    """Of tokens that are repeated once, the second copy looks behind its first."""
    model = tool("model").make_model(192, 2, 0)
    model.set_attn_implementation("eager")
    once = torch.randperm(1700)[:60] + 260
    with torch.no_grad():
        layers = model(torch.cat((once, once))[None], output_attentions=True).attentions
    before, behind = layers[0][0, 0].diagonal(-1), layers[1][0, 0].diagonal(-59)
    assert before[1:].mean() > 0.7
    assert behind[1:].mean() > 0.1
