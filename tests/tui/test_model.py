"""State around the fold: letters, touched blocks, rates, and the paused picture."""

import pytest
from msgspec import structs

from minivllm.events import types as ev
from minivllm.tui.state.model import MODELS, RATE_WINDOW, DashboardModel
from minivllm.tui.widgets.steps.step_detail import StepDetail
from minivllm.tui.widgets.steps.step_history import StepHistory


def feed(model: DashboardModel, events: list[ev.Event]) -> DashboardModel:
    for event in events:
        model.apply(event)
    return model


def test_tokens_per_second_are_those_of_the_last_two_seconds(shared_prefix) -> None:
    events = shared_prefix.run().events
    model = DashboardModel(structs.replace(shared_prefix.header, clock="monotonic"))
    assert model.rate() is None
    feed(model, events)
    ends = [event.t for event in events if isinstance(event, ev.StepEnd)]
    first = next(t for t in ends if ends[-1] - t <= RATE_WINDOW)
    tokens = sum(isinstance(event, ev.TokenSampled) and event.t > first for event in events)
    assert model.rate() == pytest.approx(tokens / (ends[-1] - first))


@pytest.mark.parametrize(
    "scenario", ["memory_pressure", "samples", "beams", "drafts"], indirect=True
)
def test_a_packed_model_is_fully_restored_and_continues_alike(scenario) -> None:
    header, events, panels = scenario.header, scenario.run(60).events, (StepHistory(), StepDetail())
    for cut in range(0, len(events), 197):
        model = feed(DashboardModel(header), events[:cut])
        pieces = MODELS.pack(model)
        restored = MODELS.restore(header, pieces, model)
        assert restored.fold.state == model.fold.state and restored.remembered == model.remembered
        assert restored.steps == model.steps and restored.ledger == model.ledger
        feed(model, events[cut:])
        again = MODELS.restore(header, pieces, model)
        assert again.fold.last_seq == cut - 1, "what is packed does not move"
        feed(restored, events[cut:])
        assert restored.fold.state == model.fold.state == scenario.engine.inspect()
        assert restored.remembered == model.remembered
        letters = [model.letter(seq_id) for seq_id in model.fold.running]
        assert all(letters) and len(set(letters)) == len(letters)
        for panel in panels:
            assert panel.lines(restored, 90, 30) == panel.lines(model, 90, 30)


def test_all_samples_of_a_request_part_at_one_place(samples) -> None:
    tree = feed(DashboardModel(samples.header), samples.run(9).events).branches.of("r0.0")
    assert len(tree.children(tree.children(None)[0])) == 3
