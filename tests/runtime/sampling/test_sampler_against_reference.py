"""The sampler against its reference, transformers, and the probabilities themselves."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.model.sampler_reference import TooCloseError, make_sequence, reference_sample
from transformers.generation import logits_process

from minivllm.core.request import Sequence
from minivllm.runtime.sampling import logits_processors
from minivllm.runtime.sampling.logits_processors import apply_logits_processors, to_weights
from minivllm.runtime.sampling.sampler import Sampler, key_for_next_token
from minivllm.sampling_params import SamplingParams

VOCAB = 12
EOS = {3, 7}

token_ids = st.integers(0, VOCAB - 1)
# Few distinct values, so that ties are common, also at every boundary.
tied_logits = st.lists(
    st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, 3.0]), min_size=VOCAB, max_size=VOCAB
)
free_logits = st.lists(st.floats(-30, 30, width=32), min_size=VOCAB, max_size=VOCAB)
all_params = st.builds(
    SamplingParams,
    max_tokens=st.just(9),
    min_tokens=st.sampled_from([0, 0, 2, 9]),
    temperature=st.sampled_from([0.0, 1e-30, 0.3, 0.8, 1.0, 1.7, 100.0]),
    top_p=st.sampled_from([1e-9, 0.1, 0.5, 0.9, 0.999, 1.0, 1.0]),
    top_k=st.sampled_from([-1, 0, 1, 2, 5, VOCAB - 1, VOCAB, 1000]),
    min_p=st.sampled_from([0.0, 0.0, 0.01, 0.3, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 0.7, 1.3, 100.0]),
    presence_penalty=st.sampled_from([0.0, 0.0, -2.0, 0.7]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 1.1, -0.4]),
    logit_bias=st.none()
    | st.dictionaries(token_ids, st.sampled_from([-100.0, -1.5, 0.25, 5.0]), max_size=4),
    stop_token_ids=st.lists(token_ids, max_size=2),
    ignore_eos=st.booleans(),
    seed=st.none() | st.integers(-(2**63), 2**63 - 1),
)
rows = st.tuples(
    tied_logits | free_logits,
    st.builds(
        make_sequence, params=all_params, prompt=st.lists(token_ids, min_size=1, max_size=6),
        output=st.lists(token_ids, max_size=6), request_id=st.text(max_size=4),
        index=st.integers(0, 3),
    ),
)  # fmt: skip


@pytest.mark.parametrize("first_head", [1, 256])
@given(batch=st.lists(rows, min_size=1, max_size=6), engine_seed=st.integers(0, 5))
@settings(max_examples=40)
def test_any_batch_gives_the_tokens_of_the_definitions_row_by_row(first_head, batch, engine_seed):
    sequences = [sequence for _, sequence in batch]
    expected = []
    for values, sequence in batch:
        try:
            key = key_for_next_token(sequence, engine_seed)
            expected.append(reference_sample(np.array(values), sequence, EOS, key).token_id)
        except TooCloseError:
            assume(False)
    with pytest.MonkeyPatch.context() as patch:
        # A short first head makes even this vocabulary need longer ones.
        patch.setattr(logits_processors, "_FIRST_HEAD", first_head)
        patch.setattr(logits_processors, "_HEAD_GROWTH", 2)
        sampled = Sampler(EOS, engine_seed)(
            torch.tensor([values for values, _ in batch]), sequences
        )
    assert [token.token_id for token in sampled] == expected


# ---- transformers ----


@pytest.fixture(scope="module")
def distinct_logits() -> torch.Tensor:
    """[6, 1000], no ties: transformers keeps all that tie with the k-th, we keep exactly k."""
    generator = torch.Generator().manual_seed(1)
    order = torch.stack([torch.randperm(1000, generator=generator) for _ in range(6)])
    return -1.1 * torch.log1p(order.float()) + 3.0


WARPERS = {
    "top_k": logits_process.TopKLogitsWarper,
    "top_p": logits_process.TopPLogitsWarper,
    "min_p": logits_process.MinPLogitsWarper,
}


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 1}, {"top_k": 50}, {"top_p": 0.5}, {"top_p": 0.99}, {"min_p": 0.1},
        *({"top_k": k, "top_p": 0.9} for k in (255, 256, 257)),  # around the end of the first head
    ],
    ids=str,
)  # fmt: skip
def test_truncation_keeps_the_tokens_that_transformers_keeps(options, distinct_logits):
    theirs = distinct_logits.double()
    # In float64: their sum over the sorted vocabulary is rounded, ours is exact.
    for name, value in options.items():
        theirs = WARPERS[name](value)(None, theirs)
    ours = to_weights(distinct_logits, [SamplingParams(**options)] * len(distinct_logits)) > 0
    assert torch.equal(ours, torch.isfinite(theirs))


@pytest.mark.parametrize("penalty", [0.5, 3.0])
def test_the_repetition_penalty_is_that_of_transformers(distinct_logits, penalty):
    sequence = make_sequence(
        SamplingParams(repetition_penalty=penalty), prompt=[5, 5, 17, 900], output=[3, 17]
    )
    theirs = logits_process.RepetitionPenaltyLogitsProcessor(penalty)(
        torch.tensor([sequence.token_ids]), distinct_logits[:1].clone()
    )
    assert torch.equal(apply_logits_processors(distinct_logits[0], sequence, set()), theirs[0])


# ---- the probabilities ----


def chi_square_p_value(sequences: list[Sequence], logits: np.ndarray) -> float:
    """Probability of a misfit at least this large, if tokens follow the defined probabilities."""
    expected = reference_sample(logits, sequences[0], set(), key=0).probabilities * len(sequences)
    sampled = Sampler(set(), 0)(torch.from_numpy(logits).expand(len(sequences), -1), sequences)
    observed = np.bincount([token.token_id for token in sampled], minlength=len(logits))
    assert observed[expected == 0.0].sum() == 0
    possible = expected > 0.0
    assert expected[possible].min() >= 5  # where the test's approximation holds
    statistic = ((observed - expected)[possible] ** 2 / expected[possible]).sum()
    degrees = torch.tensor((possible.sum() - 1) / 2.0)
    return float(
        torch.special.gammaincc(degrees, torch.tensor(statistic / 2.0, dtype=torch.float32))
    )


@pytest.mark.parametrize(
    ("params", "what_differs"),
    [
        *(({"temperature": 1.0}, what) for what in ("seed", "position", "index", "request_id")),
        ({"temperature": 0.6, "top_k": 9, "top_p": 0.9}, "seed"),
        ({"min_p": 0.1}, "seed"),
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_their_probabilities_predict(params, what_differs):
    logits = np.random.default_rng(5).uniform(-1, 1, 20).astype(np.float32)
    make = {
        "seed": lambda i: make_sequence(SamplingParams(seed=i, **params)),
        "index": lambda i: make_sequence(SamplingParams(seed=7, **params), index=i),
        "request_id": lambda i: make_sequence(SamplingParams(**params), request_id=str(i)),
        "position": lambda i: make_sequence(SamplingParams(seed=7, **params), [0] * (i + 1)),
    }[what_differs]
    sequences = [make(i) for i in range(2000)]
    assert chi_square_p_value(sequences, logits) > 0.001
