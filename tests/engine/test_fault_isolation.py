"""What goes wrong for one request ends that request with an error; the others get the tokens that
they would have got.
"""

import pytest
import torch
from support.engine.engine_fakes import FakeRunner, WatchedEngine, expected_output

from minivllm import SamplingParams
from minivllm.config import EngineConfig
from minivllm.core.request import Sequence
from minivllm.engine.engine import LLMEngine
from minivllm.errors import SamplingError
from minivllm.events import types as ev
from minivllm.outputs import RequestOutput
from minivllm.runtime.loader import load_model

PROMPT = [7, 1, 2, 3, 4, 5, 6, 7, 8]


class FailingRunner(FakeRunner):
    """Has no token for the sequences that `fails` names, once they have `after` tokens."""

    fails: tuple[str, ...] = ()
    after = 3

    def sample_tokens(self, sequences: list[Sequence], logits: None) -> list:
        return [
            (
                SamplingError(f"{one.seq_id} has NaN.", one.seq_id)
                if one.seq_id in self.fails and one.num_output_tokens >= self.after
                else self._sample(one)
            )
            for one in sequences
        ]


def failing_engine(*seq_ids: str, **options: object) -> WatchedEngine:
    watched = WatchedEngine(**options)
    watched.runner.__class__ = FailingRunner
    watched.runner.fails = seq_ids
    return watched


@pytest.mark.parametrize("num_blocks", [12, 100])
def test_a_sequence_without_a_token_fails_its_request_and_the_others_are_as_they_would_have_been(
    num_blocks: int,
) -> None:
    engine = failing_engine("bad.0", num_blocks=num_blocks)
    for name in ("a", "bad", "b"):
        engine.add(name, [ord(name[0]) % 90, *PROMPT], max_tokens=12)
    outputs = engine.run()
    for name in ("a", "b"):
        assert outputs[name].outputs[0].token_ids == expected_output([ord(name) % 90, *PROMPT], 12)
        assert outputs[name].error is None
    assert outputs["bad"].error == "bad.0 has NaN."
    assert outputs["bad"].finished and outputs["bad"].outputs[0].finish_reason == "abort"
    assert len(outputs["bad"].outputs[0].token_ids) == 3
    (aborted,) = engine.events_of(ev.RequestAborted)
    assert aborted.error == "bad.0 has NaN."
    assert engine.pool.num_free_blocks == num_blocks


def test_samples_and_beams_fail_together() -> None:
    engine = failing_engine("samples.1", "beams.0", num_blocks=60)
    engine.runner.after = 2
    engine.add("samples", [1, *PROMPT], n=3, max_tokens=10)
    engine.add("beams", [2, *PROMPT], n=3, max_tokens=10, use_beam_search=True)
    engine.add("good", [3, *PROMPT], max_tokens=10)
    outputs = engine.run()
    assert outputs["samples"].error == "samples.1 has NaN."
    assert outputs["beams"].error == "beams.0 has NaN."
    assert engine.token_ids("good") == expected_output([3, *PROMPT], 10)
    assert engine.pool.num_free_blocks == 60
    assert engine.engine._stepper.output_processor._outputs == {}


def test_nobody_finds_the_blocks_of_a_request_that_failed_and_who_shares_them_keeps_them() -> None:
    engine = failing_engine("bad.0")
    engine.add("good", PROMPT, max_tokens=12)
    engine.step()
    engine.add("bad", PROMPT, max_tokens=12)
    outputs = engine.run()
    assert outputs["bad"].num_cached_tokens == 8 and outputs["bad"].error
    assert engine.token_ids("good") == expected_output(PROMPT, 12)
    engine = failing_engine("bad.0")
    engine.add("bad", PROMPT)
    engine.run()
    assert engine.pool.cached_blocks() == {}


# ---- with a real model ----

CONFIG = EngineConfig(
    model="tiny-random", dtype="float32", num_gpu_blocks_override=24, block_size=8, max_num_seqs=4,
    max_num_batched_tokens=64, max_model_len=64, check_invariants=True,
)  # fmt: skip


def ids(first: int) -> dict:
    return {"prompt_token_ids": [first, *range(10, 30)]}


def run(engine: LLMEngine, names: dict[str, int], **params: object) -> dict[str, RequestOutput]:
    sampling = SamplingParams(seed=5, max_tokens=8, ignore_eos=True, **params)
    for name, first in names.items():
        engine.add_request(name, ids(first), sampling)
    finished = {}
    while engine.has_unfinished_requests():
        finished |= {output.request_id: output for output in engine.step() if output.finished}
    return finished


@pytest.mark.parametrize(("bad", "temperature"), [(torch.nan, 0.0), (torch.inf, 1.0)])
def test_keys_and_values_that_are_no_numbers_cost_their_request_alone_even_after_it(
    bad: float, temperature: float
) -> None:
    model = load_model(CONFIG)
    alone = run(LLMEngine.from_model(CONFIG, model), {"a": 3, "b": 4}, temperature=temperature)
    engine = LLMEngine.from_model(CONFIG, model)
    engine.add_request("sick", ids(5), SamplingParams(max_tokens=40, ignore_eos=True))
    engine.step()
    table = engine.inspect().sequences["sick.0"].block_table
    for layer in range(model.config.num_hidden_layers):
        engine._stepper.runner._attention.value_cache(layer)[table[0]] = bad
    mixed = run(engine, {"a": 3, "b": 4}, temperature=temperature)
    assert "sick.0" in mixed["sick"].error and "NaN" in mixed["sick"].error
    assert [mixed[name].outputs for name in "ab"] == [alone[name].outputs for name in "ab"]
    # Its blocks are used again, by many, and by the same prompt.
    later = run(engine, {"a": 3, "sick": 5, "c": 6, "b": 4}, temperature=temperature)
    assert [one.error for one in later.values()] == [None] * 4
    assert [later[name].outputs for name in "ab"] == [alone[name].outputs for name in "ab"]
    assert engine._stepper.scheduler.kv_cache_manager.pool.num_free_blocks == 24


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_real_model_that_raises_for_one_sequence_gives_the_others_the_same_tokens(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, poison = load_model(CONFIG), 255
    params = {"temperature": temperature, "logit_bias": {poison: -100}}
    alone = run(LLMEngine.from_model(CONFIG, model), {"a": 3, "b": 4}, **params)
    whole = type(model.decoder).forward

    def forward(self: torch.nn.Module, token_ids: torch.Tensor, *rest: object) -> torch.Tensor:
        hidden = whole(self, token_ids, *rest)  # everything is written by then
        if poison in token_ids.tolist():
            raise RuntimeError("a kernel refused")
        return hidden

    monkeypatch.setattr(type(model.decoder), "forward", forward)
    engine = LLMEngine.from_model(CONFIG, model)
    mixed = run(engine, {"a": 3, "bad": poison, "b": 4}, **params)
    assert mixed["bad"].error == "The model failed on bad.0."
    texts = {name: [one.token_ids for one in mixed[name].outputs] for name in "ab"}
    assert texts == {name: [one.token_ids for one in alone[name].outputs] for name in "ab"}
    assert engine._stepper.scheduler.kv_cache_manager.pool.num_free_blocks == 24
