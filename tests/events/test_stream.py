"""A log read once, line by line, gives the same events as a recording, also after accidents."""

from pathlib import Path

import pytest
from support.engine.engine_fakes import WatchedEngine

from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.reader import LogReader
from minivllm.events.recording.recording import Recording


@pytest.fixture
def log(tmp_path: Path) -> Path:
    engine = WatchedEngine(num_blocks=10)
    with LogWriter(tmp_path / "run.jsonl", engine.engine.log_header()) as writer:
        engine.engine.subscribe(writer.write)
        for i in range(6):
            engine.add(f"r{i}", [*range(i), 20 + i], max_tokens=6)
        engine.run()
    return tmp_path / "run.jsonl"


def test_a_stream_is_the_recording_and_a_torn_last_line_ends_it_without_damage(log):
    data = log.read_bytes()
    for torn in (data, data[:-20], data[:-20] + b"\n", data + b'{"ev":'):
        log.write_bytes(torn)
        recording, stream = Recording(log), LogReader(log)
        assert stream.header == recording.header
        assert list(stream) == list(recording.events(0, len(recording)))
        assert stream.damage is None


@pytest.mark.parametrize(
    "instead, sentence",
    [([b"?\n"], "is damaged at line 10"), ([], "expected event 8, found event 9")],
    ids=["another line", "no line"],
)
def test_a_damaged_line_ends_a_stream_and_is_reported(log, instead, sentence):
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:9], *instead, *lines[10:]]))
    stream = LogReader(log)
    assert len(list(stream)) == 8
    assert stream.damage is not None and sentence in stream.damage
