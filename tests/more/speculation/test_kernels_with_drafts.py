"""Triton's kernels, interpreted, and their graphs give the same tokens with drafts, too."""

import pytest
from speculation.test_equality import BASE, STEM, tokens_of

from minivllm.runtime import cuda_graphs
from minivllm.runtime.cuda_graphs import DecodeGraphs
from minivllm.runtime.input_batch import ModelInput
from minivllm.runtime.loader import LoadedModel, load_model

mode = pytest.importorskip("minivllm.kernels.mode", reason="no Triton: it is not installed")
pytestmark = pytest.mark.skipif(
    not mode.INTERPRETED, reason="kernels are compiled here, and this engine is on the CPU"
)
NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}
MODEL = {"method": "draft_model", "num_speculative_tokens": 3, "model": "tiny-random"}


@pytest.fixture(scope="module")
def tiny(tiny_random_path) -> LoadedModel:
    return load_model(BASE)


@pytest.mark.parametrize("config", [NGRAM, MODEL], ids=lambda config: config["method"])
@pytest.mark.parametrize("backend", ["triton:split", "triton:unified"])
def test_every_attention_kernel_verifies_several_rows_of_a_sequence(
    tiny: LoadedModel,
    backend: str,
    config: dict[str, object],
) -> None:
    requests = [(STEM, {"temperature": t, "max_tokens": 4, "seed": 3}, 0) for t in (0.0, 1.0)]
    options = {"num_gpu_blocks_override": 20, "attention_backend": backend}
    plain, _ = tokens_of(tiny, requests, **options)
    drafted, counters = tokens_of(tiny, requests, **options, speculative_config=config)
    assert drafted == plain and counters.spec_decode_num_drafts > 0


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, bool]]:
    """(sequences, tokens, whether a graph ran it) of each step that could run as a graph."""
    found, accepts = [], DecodeGraphs.accepts

    def watched(graphs: DecodeGraphs, inputs: ModelInput) -> bool:
        accepted = accepts(graphs, inputs)
        found.append((len(inputs.attention.block_tables), len(inputs.token_ids), accepted))
        return accepted

    monkeypatch.setattr(DecodeGraphs, "accepts", watched)
    return found


@pytest.mark.parametrize(("backend", "most"), [("triton:static", 3), ("triton:unified", 256)])
def test_steps_with_drafts_run_as_graphs_if_their_rows_fit_and_give_the_same_tokens(
    tiny: LoadedModel,
    backend: str,
    most: int,
    sizes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_graphs, "MAX_ROWS_WITH_DRAFTS", most)
    # Two likely tokens alternate at random, so some drafts are right and some are wrong.
    sampling = {"max_tokens": 9, "logit_bias": {8: 9.0, 9: 9.0}, "ignore_eos": True}
    requests = [(STEM, {"temperature": t, "seed": 3, **sampling}, 0) for t in (0.0, 1.0)]
    options = {"num_gpu_blocks_override": 20, "max_num_seqs": 2}
    plain, _ = tokens_of(tiny, requests, attention_backend="torch", **options)
    drafted, counters = tokens_of(
        tiny, requests, attention_backend=backend, **options, speculative_config=NGRAM
    )
    assert drafted == plain
    num_accepted = counters.spec_decode_num_accepted_tokens
    assert 0 < num_accepted < counters.spec_decode_num_draft_tokens
    chunks, *decodes = sizes
    assert chunks == (2, len(STEM) + 2, False), "the second prompt has two blocks cached"
    assert all(accepted == (rows <= max(most, 2)) for _, rows, accepted in decodes)
    assert any(rows > 3 for _, rows, _ in decodes)


def test_the_steps_of_a_draft_model_run_as_graphs_also_after_all_drafts_were_right(
    tiny: LoadedModel,
    sizes,
) -> None:
    """Then its next step computes two tokens: its last draft and the model's own token."""
    config = {"method": "draft_model", "model": "tiny-random", "num_speculative_tokens": 2}
    requests = [(STEM, {"temperature": 0.0, "max_tokens": 7, "ignore_eos": True}, 0)]
    options = {"num_gpu_blocks_override": 20, "attention_backend": "triton:static"}
    _, counters = tokens_of(tiny, requests, **options, speculative_config=config)
    assert counters.spec_decode_num_accepted_tokens == counters.spec_decode_num_draft_tokens == 4
    steps = [(rows, accepted) for _, rows, accepted in sizes]
    # The prompt; its mirror and two drafts; verification; two tokens and a draft; verification.
    assert steps[:2] == [(len(STEM), False), (len(STEM) + 1, False)]
    assert steps[2:] == [(1, True), (3, True), (2, True), (1, True), (3, True)]
