"""The large figures of a finished run are numbers of its recording, and fit on the screen."""

from pathlib import Path

import pytest

from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.lessons.scenarios.facts import RunFacts
from minivllm.lessons.scenarios.figures import figures_of
from minivllm.lessons.scenarios.scenarios import SCENARIOS
from minivllm.lessons.scenarios.stories import tell

RECORDINGS = Path(__file__).parents[2] / "docs/assets/recordings"
COLUMN = 31
"""Columns for each of three figures in a terminal of 100 columns."""


def facts_of(name: str, num_events: int | None = None) -> tuple[RunFacts, list[ev.Event]]:
    recording = Recording(RECORDINGS / f"{name}.jsonl")
    events = list(recording.events(0, len(recording) if num_events is None else num_events))
    facts = RunFacts(recording.header)
    for event in events:
        facts.apply(event)
    return facts, events


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("num_events", [0, None])
def test_each_scenario_has_three_figures_even_without_events(
    name: str, num_events: int | None
) -> None:
    facts, _ = facts_of("shared-prefix", num_events)
    figures = figures_of(SCENARIOS[name], facts)
    assert len(figures) == 3
    for figure in figures:
        assert figure.number.rstrip("%").replace(",", "").replace(".", "", 1).isdecimal()
        assert 0 < len(figure.label) <= COLUMN


def test_the_figures_of_shared_prefix_are_those_of_its_sentences() -> None:
    facts, events = facts_of("shared-prefix")
    share, hits, saved = figures_of(SCENARIOS["shared-prefix"], facts)
    told = " ".join(tell(SCENARIOS["shared-prefix"], facts))
    assert f"hit {hits.number} times" in told
    assert f"the cache gave {saved.number}," in told
    asked = sum(len(e.prompt_token_ids) for e in events if isinstance(e, ev.RequestArrived))
    assert saved.label == f"of {asked} tokens not computed"
    assert share.number == f"{int(saved.number) / asked:.0%}"


def test_the_figures_of_memory_pressure_are_counted_events() -> None:
    facts, events = facts_of("memory-pressure")
    preempted, kept, again = figures_of(SCENARIOS["memory-pressure"], facts)
    assert int(preempted.number) == sum(isinstance(e, ev.RequestPreempted) for e in events) > 0
    assert int(kept.number) == facts.fold.counters.resumed_hit_tokens
    assert f"computed {again.number} again" in tell(SCENARIOS["memory-pressure"], facts)[1]
