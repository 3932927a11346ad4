"""The workloads: promised sizes, and the same requests from the same seed."""

import pytest

from minivllm.lab.bench.throughput.workloads import (
    NANO_VLLM,
    WORKLOADS,
    WorkloadSpec,
    count_output_tokens,
    make_requests,
)

VOCAB_SIZE = 1000


def test_a_seed_means_the_same_tokens_on_every_machine():
    [request] = make_requests(WorkloadSpec("pinned", 1, (6, 6), (4, 4)), 0, 1, VOCAB_SIZE)
    assert request.prompt_token_ids == [208, 43, 81, 577, 851, 60]


@pytest.mark.parametrize("spec", WORKLOADS.values(), ids=lambda spec: spec.name)
def test_another_round_has_other_tokens_and_the_same_lengths(spec):
    first, second = (make_requests(spec, 7, round_number, VOCAB_SIZE) for round_number in (1, 2))
    for a, b in zip(first, second, strict=True):
        assert len(a.prompt_token_ids) == len(b.prompt_token_ids)
        assert a.max_tokens == b.max_tokens
        # The prefix cache hashes blocks of 16 tokens, so a round hits no block of an earlier one.
        assert a.prompt_token_ids[:16] != b.prompt_token_ids[:16]


@pytest.mark.parametrize(
    ("spec", "num_requests", "prompt_len", "output_len"),
    [
        (WORKLOADS["decode"], 16, (64, 64), (64, 64)),
        (WORKLOADS["shared-prefix"], 16, (528, 528), (32, 32)),
        (WORKLOADS["single"], 1, (128, 128), (128, 128)),
        (WORKLOADS["ragged"], 32, (16, 256), (8, 128)),
        (NANO_VLLM, 256, (100, 1024), (100, 1024)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_workload_has_the_promised_sizes(spec, num_requests, prompt_len, output_len):
    requests = make_requests(spec, 0, 1, VOCAB_SIZE)
    assert len(requests) == num_requests
    assert count_output_tokens(requests) == sum(request.max_tokens for request in requests)
    for lengths, (least, most) in (
        ([len(request.prompt_token_ids) for request in requests], prompt_len),
        ([request.max_tokens for request in requests], output_len),
    ):
        # Drawn lengths nearly fill their range.
        spread = (most - least) // 4
        assert least <= min(lengths) <= least + spread and most - spread <= max(lengths) <= most
