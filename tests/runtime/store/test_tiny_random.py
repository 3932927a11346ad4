"""The tiny random models: reproducible, complete, and sensitive to every token."""

import filecmp
from hashlib import sha256

import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

from minivllm.runtime.store.toys import TOY_WRITERS


@pytest.mark.parametrize(("model", "most"), [("tiny-random", 500_000), ("tiny-moe", 2_000_000)])
def test_it_is_small_and_the_same_every_time(model, most, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        TOY_WRITERS[model](tmp_path / name)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert filecmp.cmpfiles(tmp_path / "a", tmp_path / "b", names, shallow=False) == (names, [], [])
    assert sum((tmp_path / "a" / name).stat().st_size for name in names) < most


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


def test_its_weights_never_change_because_outputs_on_pages_and_in_recordings_are_theirs(
    tiny_random_path,
):
    weights = load_file(tiny_random_path / "model.safetensors")
    digest = sha256(b"".join(weights[name].tobytes() for name in sorted(weights)))
    assert digest.hexdigest()[:16] == "7813c959da4b9648"
