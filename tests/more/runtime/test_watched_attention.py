"""Watched attention with the triton backend, and kernel traces from a separate process."""

import sys

import msgspec
from runtime.attention import test_watched_attention as watched
from runtime.attention.test_watched_attention import Run, check, keep_samples, model
from support.model.needs import interpreted

from minivllm.events import types as ev
from minivllm.runtime.attention import xray

__all__ = ["keep_samples", "model"]

pytestmark = interpreted


def test_the_fused_kernels_give_the_attention_mass(model):
    watched.check_mass(model, backend="triton", custom_ops=["all"])


def test_the_tokens_shares_are_right_with_the_triton_backend(model):
    watched.check_shares(model, "triton", 1, 2)


def test_a_decode_of_the_static_kernel_is_traced_as_any_other(model, keep_samples):
    watched.check_traces(model, "triton:static", keep_samples)


def test_a_subprocess_gives_the_same_trace_and_a_log_keeps_it(model, keep_samples, monkeypatch):
    run = Run(model)
    run.step(), run.step()
    here = xray.trace_here
    monkeypatch.setattr(xray, "trace_here", lambda sample: 1 / 0)
    monkeypatch.setattr(xray, "interprets_here", lambda: False)
    run.engine.trace_kernel("long.0")
    run.step()
    (traced,), (sample,) = run.traces(), keep_samples
    assert traced.problem is None
    assert traced.programs == msgspec.convert(
        here(sample), list[ev.TracedProgram], from_attributes=True
    )
    check(traced, sample, run.fold.sequences["long.0"].block_table)
    assert msgspec.json.decode(msgspec.json.encode(traced), type=ev.AnyEvent) == traced


def test_a_worker_failure_is_reported_in_the_event_and_the_engine_continues(model, monkeypatch):
    run = Run(model)
    run.step(), run.step()
    monkeypatch.setattr(xray, "interprets_here", lambda: False)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    run.engine.trace_kernel("long.0")
    run.step()
    (traced,) = run.traces()
    assert traced.problem.startswith("The process that traces the kernel failed")
    assert traced.programs == []
    run.finish()
    assert len(run.tokens) == 12
