"""Moving through a recording: the picture is always the fold of exactly the earlier events."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine.random_runs import RUNS
from support.tui.memory_recording import MemoryRecording

from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS, DashboardModel
from minivllm.tui.time.transport import STEPS_PER_SECOND, Transport


def known(model: DashboardModel) -> tuple:
    """All that a panel could read."""
    return model.fold.state, list(model.fold.history), model.remembered


def transport_of(stage, state: str = "live") -> Transport:
    source = InProcessSource(stage.header, stage.events, codec=MODELS)
    transport = Transport(source, state)
    transport.tick(0.0, 60.0)
    return transport


@pytest.fixture
def walked(memory_pressure):
    """One run for all walks, never advanced."""
    return memory_pressure.run(40)


MOVES = ["+s", "-s", "+e", "-e", "+n", "-n", "start", "live", "goto", "play"]


@RUNS
@given(moves=st.lists(st.sampled_from(MOVES), max_size=30))
def test_any_walk_ends_at_the_fold_of_the_earlier_events(moves: list[str], walked) -> None:
    transport, now = transport_of(walked), 0.0
    for number, move in enumerate(moves):
        match move:
            case "start":
                transport.to_start()
            case "live":
                transport.to_live()
            case "goto":
                transport.to_step(7 * number % 40 - 3)
            case "play":
                transport.play()
                now += 0.3
                transport.tick(now, 1.0)
            case _:
                by = 1 if move[0] == "+" else -1
                {"s": transport.step, "e": transport.event, "n": transport.notable}[move[1]](by)
        now += 0.01
        transport.tick(now, 1.0)
        slow = MemoryRecording(walked.header, walked.events).view_at_event(transport.position)
        assert known(transport.view) == known(slow)


def test_a_step_from_a_live_moment_inside_a_step_does_not_stay_inside(walked) -> None:
    for cut in range(100, 200, 3):
        run = SimpleNamespace(header=walked.header, events=walked.events[:cut])
        (transport := transport_of(run)).step(1)
        assert transport.state == "paused" and transport.view.steps.current is None


def test_playing_takes_steps_at_its_speed_and_becomes_live_at_the_end(shared_prefix) -> None:
    transport = transport_of(shared_prefix.run(30), "paused")
    transport.change_speed(+1)
    assert transport.speed == 2.0
    transport.play()
    for frame in range(16):
        before = transport.position
        assert transport.tick(frame / 15, 0.0) == (transport.position > before)
    assert transport.view.fold.step == pytest.approx(2 * STEPS_PER_SECOND, abs=1)
    for frame in range(16, 100):
        transport.tick(frame / 15, 0.0)
    assert transport.state == "live" and transport.view.fold.step == 30
