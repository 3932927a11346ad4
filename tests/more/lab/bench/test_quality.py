"""`bench quality`: the log-probabilities are those of transformers, and a difference is seen."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from minivllm.lab.bench.quality.quality import TokenOfText, compare_quality, judge, text_for
from minivllm.runtime.store.provenance import HOUSE_FOLDER


def test_a_text_gets_the_log_probabilities_and_top_tokens_of_transformers():
    text = text_for("house")[:700]
    judged = judge(text, model="house", dtype="float32", device="cpu")
    token_ids = AutoTokenizer.from_pretrained(HOUSE_FOLDER)(text).input_ids
    peer = AutoModelForCausalLM.from_pretrained(HOUSE_FOLDER, dtype=torch.float32).eval()
    with torch.inference_mode():
        rows = peer(torch.tensor([token_ids])).logits[0, :-1].log_softmax(-1)
    assert [token.top_token for token in judged] == rows.argmax(-1).tolist()
    expected = rows.gather(1, torch.tensor(token_ids[1:]).unsqueeze(1)).flatten()
    actual = torch.tensor([token.logprob for token in judged])
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_perplexity_and_agreement_follow_from_the_tokens():
    half, quarter = (torch.tensor(p).log().item() for p in (0.5, 0.25))
    found = compare_quality(
        [TokenOfText(half, 1), TokenOfText(half, 2)],
        [TokenOfText(half, 1), TokenOfText(quarter, 3)],
    )
    assert (found["perplexity_a"], found["perplexity_b"]) == pytest.approx((2, 8**0.5))
    assert (found["num_tokens"], found["same_top_token"]) == (2, 0.5)
