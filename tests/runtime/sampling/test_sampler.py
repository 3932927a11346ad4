"""The sampler: greedy, independence of the batch, log-probabilities, masks, and errors."""

import math

import pytest
import torch
from support.model.sampler_reference import make_sequence

from minivllm.core.request import Sequence
from minivllm.errors import SamplingError
from minivllm.outputs import SampledToken
from minivllm.runtime.sampling import sampler as sampler_module
from minivllm.runtime.sampling.logits_processors import to_weights
from minivllm.runtime.sampling.sampler import Sampler, best_tokens
from minivllm.sampling_params import SamplingParams

EOS = 2
GREEDY = SamplingParams(temperature=0.0)


def token_ids(logits: torch.Tensor, sequences: list[Sequence], engine_seed: int = 0) -> list[int]:
    return [token.token_id for token in Sampler({EOS}, engine_seed)(logits, sequences)]


def random_logits(num_rows: int, vocab: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(num_rows, vocab, generator=torch.Generator().manual_seed(seed)) * 2


def varied_sequences() -> list[Sequence]:
    """One of each kind: greedy or not, with and without processing, with and without a seed."""
    kinds = [
        {"temperature": 0.0},
        {"temperature": 1.0},
        {"temperature": 0.8, "top_p": 0.95},
        {"temperature": 0.7, "top_k": 20, "seed": 4},
        {"temperature": 0.0, "repetition_penalty": 1.3},
        {"temperature": 1.2, "min_p": 0.05, "seed": 4},
        {"top_p": 0.5, "frequency_penalty": 1.0, "presence_penalty": -1.0, "logprobs": 3},
        {"temperature": 0.9, "top_k": 300, "top_p": 0.9, "min_tokens": 9, "logit_bias": {7: 4.0}},
        {"temperature": 0.0, "logprobs": 2},
    ]
    return [
        make_sequence(
            SamplingParams(**kind), prompt=[i, 5], output=[9, 9, i], request_id=f"r{i}", index=i % 2
        )
        for i, kind in enumerate(kinds)
    ]


# ---- greedy ----


@pytest.mark.parametrize("vocab", [7, 300, 1024])
def test_greedy_tokens_equal_argmax_with_ties_and_bad_numbers(vocab):
    generator = torch.Generator().manual_seed(vocab)
    logits = torch.randint(-3, 4, (60, vocab), generator=generator).float()  # ties everywhere
    for bad in (math.nan, math.inf, -math.inf):
        some = torch.rand(logits.shape, generator=generator) < 0.003
        logits[some] = bad
    logits[0] = -math.inf
    (values, ids), (expected_values, expected_ids) = best_tokens(logits), logits.max(dim=-1)
    torch.testing.assert_close(values, expected_values, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(ids, expected_ids)


# ---- independence of the batch ----


def test_a_row_gets_the_same_token_alone_in_any_chunks_and_with_any_global_generator(monkeypatch):
    sequences = varied_sequences()
    logits = random_logits(len(sequences), 2000)
    before = logits.clone()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    together = Sampler({EOS})(logits, sequences)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    alone = [Sampler({EOS})(logits[i : i + 1], [one])[0] for i, one in enumerate(sequences)]
    assert together == alone  # log-probabilities too, to the last bit
    for chunk in (1, 4000, 10**9):
        monkeypatch.setattr(sampler_module, "_CPU_CHUNK", chunk)
        assert Sampler({EOS})(logits, sequences) == together
    assert torch.equal(logits, before)


# ---- the edges of truncation ----


def test_another_rounding_of_the_logits_hardly_ever_draws_another_token():
    # This noise is as large as a batch changes SmolLM2's logits, in one direction for neighbouring
    # tokens. With cumulative probabilities, 6 of 100 draws would give another token.
    logits = random_logits(1, 49_152).expand(200, -1)
    sequences = [make_sequence(SamplingParams(seed=seed)) for seed in range(200)]
    rounding = torch.linspace(-1e-5, 1e-5, 49_152)
    before, after = token_ids(logits, sequences), token_ids(logits + rounding, sequences)
    assert len(set(before)) > 150, "the tail is long"
    assert sum(a != b for a, b in zip(before, after, strict=True)) <= 1


def test_weights_are_integers_whose_sum_is_exact_in_any_order():
    logits = torch.cat([random_logits(4, 49_152), torch.zeros(1, 49_152)])
    weights = to_weights(logits, [SamplingParams(temperature=0.9)] * 5)
    assert torch.equal(weights, weights.round())
    for row in weights.tolist():
        assert sum(row) == sum(reversed(row)) == sum(map(int, row)) <= 2**53


# ---- log-probabilities ----


def test_log_probabilities_are_of_the_raw_logits_and_only_for_rows_that_ask():
    logits = random_logits(2, 50)
    params = SamplingParams(temperature=0.3, top_k=3, logit_bias={8: 50.0}, logprobs=4, seed=0)
    asks, does_not = Sampler({EOS})(logits, [make_sequence(params), make_sequence(GREEDY)])
    assert does_not == SampledToken(int(logits[1].argmax()), None)

    raw = logits[0].double().log_softmax(dim=-1)
    order = raw.argsort(descending=True).tolist()
    assert list(asks.logprobs) == [8, *order[:4]]
    assert [entry.rank for entry in asks.logprobs.values()] == [order.index(8) + 1, 1, 2, 3, 4]
    for token_id, entry in asks.logprobs.items():
        assert entry.logprob == pytest.approx(float(raw[token_id]), abs=1e-12)


# ---- errors ----


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize(
    "params", [{"temperature": 0.0}, {"temperature": 1.0}, {"repetition_penalty": 2.0}], ids=str
)
def test_a_row_without_a_finite_best_logit_is_an_error_that_names_its_sequence(bad, params):
    logits = random_logits(3, 10)
    logits[1] = bad if bad == -math.inf else logits[1].index_fill(0, torch.tensor([4]), bad)
    sequences = [
        make_sequence(SamplingParams(**params), request_id=f"r{i}", index=i) for i in range(3)
    ]
    with pytest.raises(SamplingError, match=r"sequence r1\.1: the model returned NaN") as error:
        Sampler({EOS})(logits, sequences)
    assert error.value.seq_id == "r1.1"


def test_parameters_that_leave_no_token_are_an_error_for_their_row_only():
    params = {"min_tokens": 1, "stop_token_ids": [0, 1, 3]}
    logits = torch.ones(2, 4)
    bad = make_sequence(SamplingParams(temperature=0.0, **params), request_id="bad")
    good = make_sequence(GREEDY, request_id="good")
    sampler = Sampler({EOS})
    with pytest.raises(
        SamplingError, match=r"sequence bad\.0: its parameters leave no finite logit; relax"
    ):
        sampler(logits, [good, bad])
    assert sampler(logits[:1], [good]) == [SampledToken(0, None)]
