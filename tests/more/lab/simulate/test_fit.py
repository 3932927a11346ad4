"""The model of step times: its fit, its own error, and refusals."""

from itertools import product

import numpy as np
import pytest

from minivllm.errors import SimulationError
from minivllm.lab.bench.step.points import StepPoint
from minivllm.lab.simulate.fit import fit_step_times


def measured(noise: float = 0.0, seed: int = 0) -> list[StepPoint]:
    """20 ms a step, 1 ms a token up to 16, then 0.5 ms, 2 ms a decode, 1 µs a context token."""
    rng = np.random.default_rng(seed)
    points = []
    for prefill, decodes, context in product((0, 8, 64, 256, 500), (0, 1, 4, 12), (0, 1000, 5000)):
        if tokens := prefill + decodes:
            context *= decodes > 0
            seconds = 0.02 + 1e-3 * min(tokens - 1, 15) + 5e-4 * max(tokens - 16, 0)
            seconds += 2e-3 * decodes + 1e-6 * context
            seconds *= 1 + noise * rng.uniform(-1, 1)
            points.append(StepPoint(tokens, decodes, context, seconds))
    return points


def test_a_fit_finds_the_costs_behind_the_steps():
    model = fit_step_times(measured()).model(max_tokens=512)
    assert model.seconds(1, 0, 0) == pytest.approx(0.02, rel=1e-6)
    assert model.seconds(16, 16, 16_000) == pytest.approx(0.02 + 0.015 + 0.032 + 0.016, rel=1e-6)
    # Beyond the longest measured step the slope stays the same.
    short = [step for step in measured() if step.num_scheduled_tokens <= 80]
    model = fit_step_times(short).model(max_tokens=4096)
    assert model.seconds(4096, 0, 0) == pytest.approx(0.02 + 0.015 + 5e-4 * 4080, rel=0.01)
    with pytest.raises(SimulationError, match="too few"):
        fit_step_times(measured()[:11])


def test_more_work_never_makes_a_step_faster_even_with_noise():
    for seed in range(20):
        model = fit_step_times(measured(noise=0.6, seed=seed)).model(max_tokens=2048)
        by_tokens = [model.seconds(tokens, 0, 0) for tokens in range(1, 2049)]
        assert by_tokens == sorted(by_tokens)
        assert min(model.per_decode, model.per_context_token) >= 0
