"""The workloads: promised sizes, and the same requests from the same seed."""

import pytest

from minivllm.lab.bench.throughput.workloads import (
    WORKLOADS,
    WorkloadSpec,
    count_output_tokens,
    make_requests,
)

VOCAB_SIZE = 1000


def test_a_seed_means_the_same_tokens_on_every_machine() -> None:
    [request] = make_requests(WorkloadSpec("pinned", 1, (6, 6), (4, 4)), 0, 1, VOCAB_SIZE)
    assert request.prompt_token_ids == [208, 43, 81, 577, 851, 60]


@pytest.mark.parametrize("spec", WORKLOADS.values(), ids=lambda spec: spec.name)
def test_another_round_has_other_tokens_and_the_same_lengths(spec: WorkloadSpec) -> None:
    first, second = (make_requests(spec, 7, round_number, VOCAB_SIZE) for round_number in (1, 2))
    for a, b in zip(first, second, strict=True):
        assert len(a.prompt_token_ids) == len(b.prompt_token_ids)
        assert a.max_tokens == b.max_tokens
        # The prefix cache names blocks of 16 tokens: a round finds no block of the one before.
        assert a.prompt_token_ids[:16] != b.prompt_token_ids[:16]


@pytest.mark.parametrize(
    ("name", "num_requests", "prompt_len", "output_len"),
    [("decode", 16, 64, 64), ("shared-prefix", 16, 528, 32), ("single", 1, 128, 128)],
)
def test_a_workload_of_equal_requests_has_the_promised_sizes(
    name: str, num_requests: int, prompt_len: int, output_len: int
) -> None:
    requests = make_requests(WORKLOADS[name], 0, 1, VOCAB_SIZE)
    sizes = [(len(request.prompt_token_ids), request.max_tokens) for request in requests]
    assert sizes == [(prompt_len, output_len)] * num_requests
    assert count_output_tokens(requests) == num_requests * output_len


def test_ragged_requests_stay_within_the_promised_sizes_and_differ() -> None:
    requests = make_requests(WORKLOADS["ragged"], 0, 1, VOCAB_SIZE)
    assert len(requests) == 32
    prompt_lens = [len(request.prompt_token_ids) for request in requests]
    output_lens = [request.max_tokens for request in requests]
    assert 16 <= min(prompt_lens) < 64 and 200 < max(prompt_lens) <= 256
    assert 8 <= min(output_lens) < 40 and 96 < max(output_lens) <= 128
