"""Beam search against that of transformers, in double precision, where there are no ties.

Up to three of twelve tokens end a text. Texts then end early, at different lengths and several in
one step, where early stopping and the length penalty matter.
"""

import random

import pytest
import torch
import transformers
from support.engine.engine_fakes import search_over_lists
from support.engine.identity_runs import generate, logprobs_of
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from test_tokens_are_those_of_transformers import to_the_end

from minivllm.core.beam_search import BeamSearch, Candidate

VOCAB = 12


@pytest.fixture(scope="module")
def peer() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8 if parameter.ndim > 1 else 1)  # peaked enough for beams to differ
    return model


def ours(peer, prompt: list[int], search: BeamSearch) -> list[list[int]]:
    def candidates(beam: int, token_ids: list[int]) -> list[Candidate]:
        logprobs = logprobs_of(peer, token_ids)[-1]
        best = logprobs.topk(min(search.num_candidates, VOCAB)).indices.tolist()
        return [Candidate(beam, token_id, float(logprobs[token_id])) for token_id in best]

    return search_over_lists(prompt, search, candidates)


def theirs(peer, prompt: list[int], search: BeamSearch) -> list[list[int]]:
    texts = generate(
        peer, prompt, num_beams=search.width, num_return_sequences=search.width,
        max_new_tokens=search.max_tokens, length_penalty=search.length_penalty,
        early_stopping=search.early_stopping, eos_token_id=sorted(search.eos_token_ids),
    )  # fmt: skip
    return [to_the_end(text, search.eos_token_ids) for text in texts]


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_random_searches_find_what_transformers_finds(peer, early_stopping):
    rng = random.Random(7)
    num_ended, lengths = 0, set()
    for _ in range(20):
        prompt = [1 + rng.randrange(VOCAB - 1) for _ in range(rng.randint(1, 5))]
        options = {
            "width": rng.randint(2, 4),
            "max_tokens": rng.randint(1, 10),
            "eos_token_ids": frozenset(rng.sample(range(VOCAB), rng.randint(1, 3))),
            "length_penalty": rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0]),
            "early_stopping": early_stopping,
        }
        search = BeamSearch(**options)
        assert ours(peer, prompt, search) == theirs(peer, prompt, BeamSearch(**options)), (
            prompt,
            options,
        )
        num_ended += sum(hypothesis.ended_by_token for hypothesis in search.hypotheses)
        lengths |= {len(hypothesis.token_ids) for hypothesis in search.hypotheses}
    assert num_ended > 20 and len(lengths) > 5, "stopping and penalty must matter"
