"""The tiny random models: reproducible, complete, and sensitive to every token."""

from hashlib import sha256

import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

from minivllm.runtime.store.toys import TOY_WRITERS


@pytest.mark.parametrize(
    ("model", "most", "digest"),
    [("tiny-random", 500_000, "7813c959da4b9648"), ("tiny-moe", 2_000_000, "e5d8f7cfd2464bf1")],
)
def test_it_is_small_and_its_weights_never_change_because_outputs_on_pages_are_theirs(
    model, most, digest, tmp_path
):
    """If they must, also change its version in model_store.py: a cache has the old ones."""
    TOY_WRITERS[model](tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    found = sha256(b"".join(weights[name].tobytes() for name in sorted(weights)))
    assert found.hexdigest()[:16] == digest
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < most


def test_its_next_token_depends_on_the_first_of_many_far_more_than_on_rounding(tiny_random_path):
    """Otherwise token comparisons would not notice a lost or stale entry of the KV cache."""
    model = AutoModelForCausalLM.from_pretrained(tiny_random_path)
    prompt = torch.arange(3, 103)[None]
    changed = prompt.clone()
    changed[0, 0] = 200
    with torch.no_grad():
        before, after = (model(ids).logits[0, -1] for ids in (prompt, changed))
    assert (before - after).abs().max() > 1e-3
    best = before.topk(2).values
    assert best[0] - best[1] > 1e-3
    assert before.std() > 1.0
