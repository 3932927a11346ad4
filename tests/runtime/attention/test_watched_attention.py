"""Attention mass and kernel traces of a running engine: right, and without effect on tokens."""

from dataclasses import replace

import pytest
import torch
from support.engine.followed_run import FollowedRun
from support.model.needs import cpu_ops, interpreted

from minivllm.config import EngineConfig
from minivllm.events import types as ev
from minivllm.kernels import reference
from minivllm.kernels.reference_ops import rotate
from minivllm.runtime.attention import xray
from minivllm.runtime.attention.torch_backend import TorchAttentionBackend
from minivllm.runtime.attention.xray import recordings
from minivllm.runtime.kv_cache import KVCacheSpec
from minivllm.runtime.loader import load_model

PROMPTS = {"long": list(range(40, 117)), "short": list(range(80, 86))}
SHORTER = {name: prompt[:37] for name, prompt in PROMPTS.items()}
BLOCK_SIZE = 8


@pytest.fixture(scope="module")
def model():
    return load_model(EngineConfig(model="tiny-random", dtype="float32", device="cpu"))


@pytest.fixture(scope="module")
def windowed(model):  # in its first layer
    return replace(model, config=replace(model.config, sliding_window=11, sliding_layers=(0,)))


class Run(FollowedRun):
    """Two decoding requests."""

    def __init__(self, model, backend="torch", prompts=PROMPTS, **options):
        options = {"max_num_batched_tokens": 64, "attention_backend": backend, **options}
        super().__init__(model, num_gpu_blocks_override=32, **options)
        for name, prompt in prompts.items():
            self.add(name, prompt, {"temperature": 0})

    def traces(self):
        return self.of(ev.KernelTraced)

    @property
    def tokens(self):
        return [(event.seq_id, event.token_id) for event in self.of(ev.TokenSampled)]


# ---- attention.mass ----


def check_mass(model, **options):
    """Chunks small enough to mix prefill and decode; the shares equal those without a cache."""
    options = {"max_num_batched_tokens": 16, "prompts": SHORTER, **options}
    asked, silent = (Run(model, **options) for _ in range(2))
    asked.engine.record_attention_mass(True)
    masses, plans = asked.finish().of(ev.AttentionMass), asked.of(ev.StepScheduled)
    assert silent.finish().of(ev.AttentionMass) == []
    assert asked.tokens == silent.tokens
    assert [(m.step, m.seq_id) for m in masses] == [(p.step, p.seq_id) for p in plans]
    for found, plan in zip(masses, plans, strict=True):
        weights = naive_weights(model, tokens_seen(asked, plan)).mean(dim=(0, 1))
        expected = [float(block.sum()) for block in weights.split(BLOCK_SIZE)]
        assert found.mass == pytest.approx(expected, abs=1e-5)


def tokens_seen(run, plan):
    """The tokens that the last token of a scheduled sequence sees, itself included."""
    outputs = [token for seq_id, token in run.tokens if seq_id == plan.seq_id]
    token_ids = SHORTER[plan.seq_id.removesuffix(".0")] + outputs
    return token_ids[: plan.num_computed_tokens + plan.num_tokens]


@pytest.mark.parametrize("name", ["model", "windowed"])
def test_every_scheduled_sequence_gets_its_attention_mass_and_tokens_do_not_change(name, request):
    check_mass(request.getfixturevalue(name))


def naive_weights(model, token_ids):
    """From the queries and keys of one forward pass over the whole sequence, without a cache.

    Returns the shares of the last token's attention: [num_layers, num_heads, num_tokens].
    """
    rows = []

    def attend(layer, q, k, v, cos_sin):
        q, k = (rotate(x, *cos_sin) for x in (q, k))
        group = q.shape[1] // k.shape[1]
        keys, values = (x.repeat_interleave(group, dim=1).double() for x in (k, v))
        scores = torch.einsum("qhd,thd->hqt", q.double(), keys) * q.shape[2] ** -0.5
        hidden = torch.full(scores.shape[1:], float("-inf"), dtype=torch.float64)
        scores += hidden.triu(1)
        if window := model.config.windows[layer]:
            scores += hidden.tril(-window)
        weights = scores.softmax(-1)
        rows.append(weights[:, -1])  # of the last token
        return torch.einsum("hqt,thd->qhd", weights, values).to(q.dtype)

    with torch.inference_mode():
        model.decoder(torch.tensor(token_ids), torch.arange(len(token_ids)), attend)
    return torch.stack(rows)


def check_shares(model, backend, layer, head):
    """The shares of the tokens of `short.0`, or of the first sequence where it is not scheduled."""
    options = {"backend": backend, "max_num_batched_tokens": 16, "prompts": SHORTER}
    asked, silent = (Run(model, **options) for _ in range(2))
    asked.engine.record_attention_mass(True, "short.0", layer, head)
    found, plans = asked.finish().of(ev.TokenAttention), asked.of(ev.StepScheduled)
    assert asked.tokens == silent.finish().tokens and silent.of(ev.TokenAttention) == []
    assert {event.seq_id for event in found} == {"long.0", "short.0"}, "in some steps one is alone"
    for event in found:
        assert (event.layer, event.head) == (layer, head)
        of_step = {plan.seq_id: plan for plan in plans if plan.step == event.step}
        assert event.seq_id == ("short.0" if "short.0" in of_step else next(iter(of_step)))
        expected = naive_weights(model, tokens_seen(asked, of_step[event.seq_id]))
        assert (event.num_layers, event.num_heads) == expected.shape[:2]
        expected = expected.mean(dim=0) if layer is None else expected[layer]
        expected = expected.mean(dim=0) if head is None else expected[head]
        assert event.weights == pytest.approx(expected.tolist(), abs=2e-5)
        assert sum(event.weights) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "backend", "layer", "head"),
    [
        ("model", "torch", None, None), ("model", "torch", 1, None), ("model", "torch", None, 3),
        ("model", "cpu", 0, 1), ("windowed", "torch", 0, 1),
    ],
)  # fmt: skip
def test_the_tokens_shares_of_one_sequence_are_those_of_a_plain_softmax(
    name, backend, layer, head, request
):
    if backend == "cpu":
        cpu_ops()
    check_shares(request.getfixturevalue(name), backend, layer, head)


@pytest.mark.parametrize("window", [0, 4])
def test_the_torch_operations_equal_the_reference_with_junk_after_the_end(window):
    query, keys = torch.randn(2, 6, 16), torch.randn(9, 4, 2, 16)
    tables, lengths = torch.tensor([[7, 2, 5], [1, 8, 0]]), torch.tensor([11, 5])
    keys[5, 3], keys[8, 1:], keys[0] = float("nan"), float("nan"), float("nan")
    expected = reference.attention_mass(query, keys, tables, lengths, 0.25, window)
    spec = KVCacheSpec(1, 2, 16, 4, torch.float32, sliding_windows=(window,))
    backend = TorchAttentionBackend(spec, 9, query.device)
    backend.kv_caches[0][:, :, :2] = keys
    ours = backend.attention_mass(0, query, tables, lengths)
    torch.testing.assert_close(ours, expected)


# ---- kernel.traced ----


@pytest.fixture
def keep_samples(monkeypatch):
    """The samples that the engine sent to be traced."""
    samples, original = [], xray.trace_decode
    monkeypatch.setattr(
        xray, "trace_decode", lambda sample: (samples.append(sample), original(sample))[1]
    )
    return samples


def check(traced, sample, block_table):
    """Check that each program reads the block table in order and ends with torch's softmax."""
    num_kv_heads, group = sample.keys.shape[2], len(sample.query) // sample.keys.shape[2]
    assert [program.kv_head for program in traced.programs] == list(range(num_kv_heads))
    first = max(traced.num_tokens - sample.window, 0) if sample.window else 0
    keys = sample.keys.flatten(0, 1)[first : traced.num_tokens]
    for program in traced.programs:
        reads = [read for tile in program.tiles for read in tile.reads]
        slots = [(r.block_id, r.first_slot + i) for r in reads for i in range(r.num_slots)]
        assert slots == [
            (block_table[i // BLOCK_SIZE], i % BLOCK_SIZE) for i in range(first, traced.num_tokens)
        ]
        head = program.kv_head
        queries = sample.query[head * group : (head + 1) * group]
        # [group, num_tokens]
        scores = queries.double() @ keys[:, head].double().T * sample.query.shape[1] ** -0.5
        last, maxima = program.tiles[-1], scores.max(dim=1).values
        assert last.running_max == pytest.approx(maxima.tolist(), rel=1e-4, abs=1e-5)
        sums = (scores - maxima[:, None]).exp().sum(dim=1)
        assert last.running_sum == pytest.approx(sums.tolist(), rel=1e-4)


def check_traces(model, backend, keep_samples):
    """Each program reads the block table in order and ends with torch's softmax."""
    run = Run(model, backend)
    run.engine.trace_kernel("short.0")
    run.step()  # prefills both prompts in part, so there is no decode yet
    assert run.traces() == []
    run.step()
    run.step()
    run.engine.trace_kernel("long.0")
    run.engine.trace_kernel("long.0")  # a repeated request changes nothing
    block_table = list(run.fold.sequences["short.0"].block_table)
    run.step()
    tables = {"short.0": block_table, "long.0": list(run.fold.sequences["long.0"].block_table)}
    run.finish()
    traces = run.traces()
    assert sorted(trace.seq_id for trace in traces) == ["long.0", "short.0"]
    for traced, sample in zip(traces, keep_samples, strict=True):
        assert (traced.layer, traced.num_tokens, traced.problem) == (0, sample.num_tokens, None)
        check(traced, sample, tables[traced.seq_id])
    silent = Run(model, backend).finish()
    assert run.tokens == silent.tokens, "watching changes no token"


@interpreted
@pytest.mark.parametrize("name", ["model", "windowed"])
def test_a_traced_decode_reads_its_table_and_ends_with_torchs_softmax(name, request, keep_samples):
    check_traces(request.getfixturevalue(name), "torch", keep_samples)


@interpreted
def test_the_sample_holds_the_models_own_queries_and_keys(model, keep_samples):
    run = Run(model)
    for _ in range(4):
        run.step()
    run.engine.trace_kernel("long.0")
    token_ids = PROMPTS["long"] + [token for seq_id, token in run.tokens if seq_id == "long.0"]
    run.step()
    (sample,), layer_0 = keep_samples, {}

    def attend(layer, q, k, v, cos_sin):
        layer_0.setdefault("qkv", (rotate(q, *cos_sin), rotate(k, *cos_sin), v))
        return q

    with torch.inference_mode():
        model.decoder(torch.tensor(token_ids), torch.arange(len(token_ids)), attend)
    q, k, v = layer_0["qkv"]
    assert sample.num_tokens == len(token_ids)
    torch.testing.assert_close(sample.query, q[-1])
    torch.testing.assert_close(sample.keys.flatten(0, 1)[: len(token_ids)], k)
    torch.testing.assert_close(sample.values.flatten(0, 1)[: len(token_ids)], v)


def test_without_triton_the_answer_is_a_recording_marked_as_another_run(model, monkeypatch):
    monkeypatch.setattr("minivllm.engine.watchers.find_spec", lambda name: None)
    run = Run(model)
    run.engine.trace_kernel("long.0")
    run.finish()
    (traced,) = run.traces()
    assert (traced.seq_id, traced.problem, traced.recorded) == ("long.0", None, "another")
    first = recordings()[0]
    assert (traced.layer, traced.num_tokens) == (first.layer, first.num_tokens)
    assert [program.kv_head for program in traced.programs] == [0, 1]
    assert run.tokens == Run(model).finish().tokens
