"""`LogWriter` when writes fail: it reports what is missing and never claims success."""

import os
from pathlib import Path

import pytest
from support.engine.engine_fakes import WatchedEngine
from support.full_disk import REASON, files_no_larger_than

from minivllm.errors import EventLogError
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.events.types import Gap


@pytest.fixture
def run(tmp_path: Path) -> "Run":
    return Run(tmp_path / "run.jsonl")


class Run:
    """A recorded engine with work for many steps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.watched = WatchedEngine()
        self.log = LogWriter(path, self.watched.engine.log_header())
        self.watched.engine.subscribe(self.log.write)
        self.watched.add("a", [1, 2, 3], max_tokens=30)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.watched.step()

    def num_events(self, first: int, last: int = 10**9) -> int:
        return sum(first <= event.step <= last for event in self.watched.events)


@pytest.mark.parametrize("steps_after", [0, 4], ids=["full to the end", "room again"])
def test_a_recording_on_a_full_disk_ends_with_what_is_missing_and_from_which_step(run, steps_after):
    run.steps(3)
    with files_no_larger_than(run.path.stat().st_size + 20):
        run.steps(3)
        assert run.log.loss == (run.num_events(4), 4, REASON)
        if not steps_after:
            check_the_loss(run, run.num_events(4), gaps=0)
    if steps_after:
        run.steps(steps_after)
        # The first buffer after it is part of the gap.
        check_the_loss(run, run.num_events(4, 7), gaps=1)


def check_the_loss(run: Run, lost: int, gaps: int) -> None:
    sentence = rf"lacks {lost} events from step 4 on \({REASON}\)"
    with pytest.raises(EventLogError, match=sentence):
        run.log.close()
    assert run.log.loss == (lost, 4, REASON) and run.log.last_step == 3 and not run.log.is_whole
    recording = Recording(run.path)
    found = [event for event in recording.events(0, len(recording)) if isinstance(event, Gap)]
    assert [gap.lost for gap in found] == [lost] * gaps
    assert gaps or recording.last_step == 3, "the written part is complete"


def test_a_header_that_does_not_fit_is_refused_before_the_run(tmp_path):
    header = WatchedEngine().engine.log_header()
    sentence = f"cannot be written: {REASON}"
    with files_no_larger_than(40), pytest.raises(EventLogError, match=sentence):
        LogWriter(tmp_path / "run.jsonl", header)


@pytest.mark.parametrize(
    "accident",
    [
        os.unlink,
        lambda path: os.truncate(path, 10),
        lambda path: (path.unlink(), path.write_text("somebody else's")),
    ],
    ids=["removed", "cut", "replaced"],
)
def test_a_file_that_was_changed_underneath_is_no_recording(run, accident):
    run.steps(3)
    accident(run.path)
    with pytest.raises(EventLogError, match="the recording is lost"):
        run.log.close()
    assert not run.log.is_whole
