"""The heat map of a mixture of experts, its screen, and its figure in the answer of w."""

from support.engine.random_runs import folded
from support.tui.shown import rows

from minivllm.events import types as ev
from minivllm.tui.answers.why import why_step
from minivllm.tui.state.decisions import sentence_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.steps.experts import ExpertMap


def with_experts(stage: object, counts: list[list[int]]) -> tuple[DashboardModel, ev.Event]:
    model = folded(stage.run(22))
    event = ev.ExpertsRouted(model.fold.last_seq + 1, model.steps.records[-1].step, 1.0, counts)
    model.apply(event)
    return model, event


def test_each_layer_with_experts_has_a_row_and_an_unread_expert_a_dot(shared_prefix) -> None:
    model, event = with_experts(shared_prefix, [[2, 0, 1, 1], [], [0, 3, 12, 1]])
    assert rows(ExpertMap(), model, 40, 6) == [
        "layer    0    1    2    3", "    0    2    ·    1    1", "    2    ·    3   12    1",
    ]  # fmt: skip
    styles = [span[1] for span in ExpertMap().lines(model, 40, 6)[2]]
    assert styles == ["muted", "faint", "text", "warn*!", "text"]
    assert rows(ExpertMap(), model, 20, 6)[2] == "    2  ·  3 12  1"
    assert rows(ExpertMap(), model, 15, 6)[2] == "   2 ·▂█▁"
    assert rows(ExpertMap(), model, 40, 2)[1] == "+ 2 more layers"
    # And w, the title and the list of events say how many experts the step reads.
    assert why_step(model, event.step).endswith(" It read 6 of 8 experts.")
    assert "experts" not in why_step(model, event.step - 1)
    assert ExpertMap().title(model, 80) == f"Experts  step {event.step} reads 6 of 8"
    assert sentence_of(event) == "the step reads 6 of 8 experts"


def test_a_model_without_experts_or_an_odd_recording_says_how_to_get_them(shared_prefix) -> None:
    model = folded(shared_prefix.run(9))
    for counts in ([], [[]], [[0, 0]]):
        assert ExpertMap().title(model, 80)
        assert len(rows(ExpertMap(), model, 60, 4)) in (1, 2)
        model, _ = with_experts(shared_prefix, counts)
