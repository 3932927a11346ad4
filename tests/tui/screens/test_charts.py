"""The charts of the last steps: each column equals a plain reading of the events."""

from collections import defaultdict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine.random_runs import OPTIONS, REQUESTS, RUNS, folded, run_of
from support.tui.shown import SCENARIOS, rows

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.steps.charts import StepCharts, charts_of, columns

DRAFTS = "drafts that were right"
GLYPHS = " ▁▂▃▄▅▆▇█"


def reference(header: ev.LogHeader, events: list[ev.Event]) -> dict[str, dict[int, float]]:
    """Name of a chart -> step -> value on a virtual clock, from events and a fold of them."""
    fold = Fold(header)
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for event in events:
        fold.apply(event)
        if isinstance(event, ev.TokenSampled):
            count = found["output tokens per step"]
            count[event.step] = count.get(event.step, 0) + 1
        elif isinstance(event, ev.StepEnd):
            used = sum(block.ref_cnt > 0 for block in fold.blocks)
            found["blocks in use"][event.step] = used
            found["output tokens per step"].setdefault(event.step, 0)
            drafts = [item for item in fold.scheduled if item.draft_token_ids]
            if drafts:
                accepted = sum(item.num_accepted for item in drafts)
                total = sum(len(item.draft_token_ids) for item in drafts)
                found[DRAFTS][event.step] = accepted / total
    return found


def check_charts(model: DashboardModel, events: list[ev.Event]) -> None:
    expected = reference(model.header, events)
    charts = charts_of(model)
    assert [chart.name for chart in charts] == [
        "output tokens per step", *([DRAFTS] if DRAFTS in expected else []),
        "blocks in use",
    ]  # fmt: skip
    for chart in charts:
        by_step = zip((record.step for record in model.steps.records), chart.values, strict=True)
        drawn = {step: value for step, value in by_step if value is not None}
        assert drawn == expected[chart.name], chart.name


def heights(lines: list[str], width: int) -> list[int]:
    """Read the columns back from the screen, in eighths of a cell."""
    padded = [line.ljust(width) for line in lines]
    return [sum(GLYPHS.index(line[x]) for line in padded) for x in range(width)]


@RUNS
@given(REQUESTS, OPTIONS)
def test_the_values_of_each_step_match_a_reference(stage, ask, requests, options) -> None:
    run = run_of(stage, ask, requests, options)
    check_charts(folded(run), run.events)


@pytest.mark.parametrize("scenario", SCENARIOS, indirect=True)
def test_the_columns_on_the_screen_are_the_values(scenario) -> None:
    model = folded(scenario.run(30))
    check_charts(model, scenario.events)
    expected = reference(model.header, scenario.events)["blocks in use"]
    charts, shown = charts_of(model), rows(StepCharts(), model, 30, 18)
    begins = [shown.index(row) for row in shown if row.split("  ")[0] in [c.name for c in charts]]
    for chart, begin, end in zip(charts, begins, [*begins[1:], 18], strict=True):
        is_equal = len(set(chart.values) - {None}) == 1
        assert (end - begin == 1) == is_equal, "a chart of equal values has no bars"
    shown, total = shown[begins[-1] + 1 :], len(model.fold.blocks)
    assert heights(shown, 30) == [
        max(round(used * len(shown) * 8 / total), 1) if used else 0 for used in expected.values()
    ]


def test_measured_steps_have_a_chart_of_their_time_and_tokens_per_second(shared_prefix) -> None:
    shared_prefix.run(9)
    shared_prefix.header = msgspec.structs.replace(shared_prefix.header, clock="monotonic")
    times = {"t_schedule": 0.001, "t_prepare": 0.002, "t_model": 0.016, "t_sample": 0.001}
    shared_prefix.events = [
        msgspec.structs.replace(event, **times) if isinstance(event, ev.StepEnd) else event
        for event in shared_prefix.events
    ]
    model = folded(shared_prefix)
    rates, seconds, _ = charts_of(model)
    assert seconds.values == pytest.approx([0.02] * 9) and seconds.shown(0.02) == "20ms"
    counts = [record.num_tokens for record in model.steps.records]
    # The stage's clock moves 0.04 seconds per step. The top line and the chart have the same rate.
    assert rates.values[0] is None and counts[-1] == 4
    assert rates.values[1:] == pytest.approx([count / 0.04 for count in counts[1:]])
    assert model.rate() == rates.now == pytest.approx(sum(rates.values[1:]) / 8)
    assert not model.is_slowed(), "half of the time is work"
    model.steps.records = [msgspec.structs.replace(r, t=2 * r.t) for r in model.steps.records]
    assert model.is_slowed()


@given(st.lists(st.none() | st.floats(0, 1e6), max_size=50), st.floats(0, 1e6), st.integers(1, 9))
def test_values_above_zero_are_visible_and_none_is_higher_than_its_chart(values, full, height):
    shown = heights(columns(values, full, height), len(values))
    for value, eighths in zip(values, shown, strict=True):
        assert 0 <= eighths <= 8 * height
        assert bool(eighths) == bool(value and full)
        if value and full and value <= full:
            assert abs(eighths - value * 8 * height / full) <= 1
