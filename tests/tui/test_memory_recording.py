"""The recording in memory that panels are tested with is held against the real one."""

from pathlib import Path

from support.tui.memory_recording import MemoryRecording

from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.tui.state.model import ModelCodec


def test_the_recording_in_memory_answers_as_the_real_one_does(memory_pressure, tmp_path: Path) -> None:
    run = memory_pressure.run(50)
    with LogWriter(tmp_path / "run.jsonl", run.header) as writer:
        for event in run.events:
            writer.write(event)
    real, plain = Recording(tmp_path / "run.jsonl", ModelCodec()), MemoryRecording(run.header, run.events)
    assert len(real) == len(plain) and real.header == plain.header
    assert (real.first_step, real.last_step) == (plain.first_step, plain.last_step)
    total = len(real)
    for start, stop in [(0, 0), (0, 5), (-3, 4), (total - 2, total + 9), (total, total + 1), (17, total)]:
        assert list(real.events(start, stop)) == list(plain.events(start, stop))
    for index in range(0, total + 2, 7):
        assert real.step_of(index) == plain.step_of(index)
        assert real.view_at_event(index).fold.state == plain.view_at_event(index).fold.state
    for step in range(real.last_step + 3):
        assert real.step_begin(step) == plain.step_begin(step)
        assert real.step_end(step) == plain.step_end(step)
    real.close()
