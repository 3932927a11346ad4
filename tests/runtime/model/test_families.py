"""Each family's checkpoint, as transformers saves it, writes the tokens of transformers."""

from pathlib import Path

import pytest
import torch
from support.engine.identity_runs import base_of, run
from support.model.needs import cpu_ops
from support.model.tiny_models import MORE_PEERS, PEERS, make_peer, prompt

from minivllm.runtime.loader import load_model
from minivllm.sampling_params import SamplingParams

MAX_TOKENS = 64


def save(peer, directory, tiny_random_path) -> None:
    peer.save_pretrained(directory)
    for file in Path(tiny_random_path).glob("*token*"):  # the prompts are token ids
        (directory / file.name).write_bytes(file.read_bytes())


@pytest.mark.parametrize("name", PEERS + MORE_PEERS)
def test_under_pressure_a_checkpoint_writes_transformers_tokens(name, tmp_path, tiny_random_path):
    """Prompts of mixed lengths run in chunks; two share a prefix; the pool is too small for all."""
    peer = make_peer(name)
    save(peer, tmp_path, tiny_random_path)
    common = prompt(40, seed=7)
    prompts = [prompt(n, seed=n) for n in (1, 9, 33, 70)]
    prompts += [[*common, *prompt(3, seed=1)], [*common, *prompt(5, seed=2)]]
    model = load_model(base_of(str(tmp_path)))
    params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS, ignore_eos=True)
    outputs, engine = run(
        model, prompts, params, block_size=8, num_gpu_blocks_override=40,
        max_num_batched_tokens=24, max_model_len=200,
    )  # fmt: skip
    counters = engine.inspect().counters
    assert counters.num_preemptions and counters.prefix_cache_hits
    for ids, (tokens,) in zip(prompts, outputs, strict=True):
        with torch.no_grad():
            # Which token does the peer choose after each of our tokens? One pass for all.
            logits = peer(torch.tensor([[*ids, *tokens]])).logits[0, len(ids) - 1 : -1]
        assert len(tokens) == MAX_TOKENS and tokens == logits.argmax(-1).tolist()


@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_a_window_hides_the_same_tokens_with_int8_and_drafts_in_every_schedule(
    backend, tmp_path, tiny_random_path
):
    if backend == "cpu":
        cpu_ops()
    save(make_peer("gemma3-heads-of-16"), tmp_path, tiny_random_path)
    model = load_model(base_of(str(tmp_path)))
    params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
    prompts = [[*range(30, 50)] * 2, [*range(30, 50), 7, 8], prompt(3), prompt(60)]
    options = {"attention_backend": backend, "block_size": 4, "max_model_len": 200}
    options["kv_cache_dtype"] = "int8_per_token_head"
    expected, _ = run(model, prompts, params, **options, enable_prefix_caching=False)
    small = {"num_gpu_blocks_override": 50, "max_num_batched_tokens": 16}
    drafts = {"method": "ngram", "num_speculative_tokens": 3}
    outputs, engine = run(model, prompts, params, **options, **small, speculative_config=drafts)
    counters = engine.inspect().counters
    assert outputs == expected
    assert counters.num_preemptions and counters.prefix_cache_hits
    assert counters.spec_decode_num_accepted_tokens
