"""The source of an event: every kind leads to the line that emits it."""

from pathlib import Path

import pytest
from support.tui.memory_recording import context_of

from minivllm.events import types as ev
from minivllm.tui.answers.code import Rule, meaning_of, rule_of, source_of
from minivllm.tui.draw.selection import event, sequence
from minivllm.tui.widgets.steps.budget import Budget

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("kind", ev.EVENT_KINDS, ids=lambda kind: kind.__name__)
def test_the_marked_line_of_every_kind_emits_that_kind(kind: type[ev.Event]) -> None:
    assert meaning_of(kind).endswith(".") and "\n" not in meaning_of(kind)
    found = source_of(Rule(kind.rule, kind))
    module, _, qualname = kind.rule.partition(":")
    file = ROOT / f"{module.replace('.', '/')}.py"
    lines = file.read_text(encoding="utf-8").splitlines()
    marked = [lines[number - 1] for number in sorted(found.marked)]
    assert any(kind.__name__ in line for line in marked)
    assert any("emit(" in line for line in marked) or kind is ev.Gap
    # Each numbered line in the window is that line of the file.
    shown = found.code.splitlines()
    assert shown == lines[found.first_line - 1 : found.first_line - 1 + len(shown)]
    assert found.title == f"{file.relative_to(ROOT)}:{min(found.marked)}  {qualname}"
    others = {other.__name__ for other in ev.EVENT_KINDS} - {kind.__name__}
    others -= {"RequestAdmitted", "RequestResumed"}  # one line chooses between them
    assert not [line for line in marked if any(f"ev.{other}," in line for other in others)]


@pytest.mark.parametrize(
    "name", ["minivllm.core.scheduler:Scheduler._magic", "os:system", "\x1b[2J"]
)
def test_a_missing_rule_gives_a_sentence(name: str) -> None:
    found = source_of(Rule(name))
    assert "There is no " in found.title and not found.code and "\x1b" not in found.title
    assert "not the version that wrote the recording" in str(found.syntax(dark=True))


def test_the_selected_event_is_before_the_current_one_and_the_panel(memory_pressure) -> None:
    run = memory_pressure.run(60)
    at = next(i for i, e in enumerate(run.events) if isinstance(e, ev.RequestPreempted))
    context = context_of(run, at + 1)
    budget = type("WithRule", (Budget,), {"RULE": "minivllm.core.scheduler:Scheduler.schedule"})()
    assert rule_of(context, budget) == Rule(ev.RequestPreempted.rule, ev.RequestPreempted)
    context.selection.choose(event(run.events[0].seq))
    assert rule_of(context, budget) == Rule(type(run.events[0]).rule, type(run.events[0]))
    context.selection.choose(sequence("r0.0"))
    context.transport.to_step(20)
    assert rule_of(context, budget) == Rule(budget.RULE)
    assert rule_of(context, None) == Rule(ev.StepEnd.rule, ev.StepEnd)
