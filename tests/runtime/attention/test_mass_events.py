"""`attention.mass`: told on request alone, right in both backends, and without a trace in the
tokens.
"""

import pytest
import torch

from minivllm import SamplingParams
from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.kernels import reference
from minivllm.kernels.mode import INTERPRETED
from minivllm.runtime.attention.mass import gathered_attention_mass
from minivllm.runtime.loader import load_model
from minivllm.runtime.model_runner import ModelRunner

PROMPTS = {"a": list(range(40, 77)), "b": list(range(80, 86))}


pytestmark = pytest.mark.skipif(not INTERPRETED, reason="the tiny models are on the CPU")


@pytest.fixture(scope="module")
def model():
    return load_model(EngineConfig(model="tiny-random", dtype="float32", device="cpu"))


class Run:
    """A run of `PROMPTS`, in chunks small enough that prefill and decode mix, and all that it
    told.
    """

    def __init__(self, model, backend, asks):
        config = EngineConfig(
            model="tiny-random", dtype="float32", device="cpu", attention_backend=backend,
            block_size=8, num_gpu_blocks_override=32, max_num_batched_tokens=16, max_model_len=128,
        )  # fmt: skip
        self.runner = ModelRunner(config, model)
        # Stands still within a step: a request arrives when its event says.
        self.engine = LLMEngine(config, self.runner, model.tokenizer, clock=VirtualClock())
        self.events = []
        self.fold = Fold(self.engine.log_header())
        self.engine.subscribe(self.events.append)
        self.engine.subscribe(self.fold.apply)
        if asks:
            self.engine.record_attention_mass(True)
        for name, prompt in PROMPTS.items():
            params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
            self.engine.add_request(name, {"prompt_token_ids": prompt}, params)

    def finish(self):
        while self.engine.has_unfinished_requests():
            self.engine.step()
            assert self.fold.state == self.engine.inspect()
        return self

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def tokens(self):
        return [(event.seq_id, event.token_id) for event in self.of(ev.TokenSampled)]


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_every_scheduled_sequence_gets_one_event_whose_shares_sum_to_one_and_tokens_do_not_change(
    model, backend
):
    asked, silent = (Run(model, backend, asks).finish() for asks in (True, False))
    masses, plans = asked.of(ev.AttentionMass), asked.of(ev.StepScheduled)
    assert [(m.step, m.seq_id) for m in masses] == [(p.step, p.seq_id) for p in plans]
    for told, planned in zip(masses, plans, strict=True):
        assert len(told.mass) == -(-(planned.num_computed_tokens + planned.num_tokens) // 8)
        assert sum(told.mass) == pytest.approx(1, abs=1e-5)
    assert silent.of(ev.AttentionMass) == []
    assert asked.tokens == silent.tokens


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_the_shares_equal_those_of_whole_sequences_worked_out_without_a_cache(model, backend):
    run = Run(model, backend, asks=True).finish()
    outputs = {name: [t for seq_id, t in run.tokens if seq_id.startswith(name)] for name in PROMPTS}
    for told, planned in zip(run.of(ev.AttentionMass), run.of(ev.StepScheduled), strict=True):
        name = next(name for name in PROMPTS if told.seq_id.startswith(name))
        token_ids = (PROMPTS[name] + outputs[name])[
            : planned.num_computed_tokens + planned.num_tokens
        ]
        assert told.mass == pytest.approx(naive_mass(model, token_ids, block_size=8), abs=1e-5)


def naive_mass(model, token_ids, block_size):
    """Position by position, from the queries and keys of one forward pass over the whole
    sequence.
    """
    shares = torch.zeros(-(-len(token_ids) // block_size), dtype=torch.float64)
    rows = []

    def attend(layer, q, k, v):
        group = q.shape[1] // k.shape[1]
        keys, values = (x.repeat_interleave(group, dim=1).double() for x in (k, v))
        scores = torch.einsum("qhd,thd->hqt", q.double(), keys) * q.shape[2] ** -0.5
        scores += torch.full(scores.shape[1:], float("-inf"), dtype=torch.float64).triu(1)
        weights = scores.softmax(-1)
        rows.extend(weights[:, -1])  # of the last token, a row for each head
        return torch.einsum("hqt,thd->qhd", weights, values).to(q.dtype)

    with torch.inference_mode():
        model.decoder(torch.tensor(token_ids), torch.arange(len(token_ids)), attend)
    for row in rows:
        for position, weight in enumerate(row):
            shares[position // block_size] += weight / len(rows)
    return shares.tolist()


def test_it_can_be_switched_off_again_in_the_middle_of_a_run(model):
    run = Run(model, "torch", asks=True)
    run.engine.step()
    num_told = len(run.of(ev.AttentionMass))
    run.engine.record_attention_mass(False)
    run.finish()
    assert len(run.of(ev.AttentionMass)) == num_told > 0


def test_the_torch_operations_equal_the_reference_with_junk_after_the_end():
    query, keys = torch.randn(2, 6, 16), torch.randn(9, 4, 2, 16)
    tables, lengths = torch.tensor([[7, 2, 5], [1, 8, 0]]), torch.tensor([11, 5])
    keys[5, 3], keys[8, 1:], keys[0] = float("nan"), float("nan"), float("nan")
    expected = reference.attention_mass(query, keys, tables, lengths, 0.25)
    torch.testing.assert_close(
        gathered_attention_mass(query, keys, tables, lengths, 0.25), expected
    )
