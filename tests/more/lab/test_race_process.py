"""The race in its own process, as the dashboard starts it, from a log that begins in the middle."""

import json
import subprocess
import sys

from msgspec import structs
from support.engine.engine_fakes import WatchedEngine, prompt

from minivllm.events.recording.log import LogWriter
from minivllm.lab.compare.measure import measure_recording
from minivllm.lab.race.recorded import read_recorded_run


def test_the_process_reports_progress_and_ends_with_its_notes_or_an_error(tmp_path):
    engine = WatchedEngine(num_blocks=60, max_model_len=50)
    engine.add("r0", prompt(8), max_tokens=20)
    for _ in range(5):
        engine.step()
    state, start = engine.engine.inspect(), len(engine.events)
    header = structs.replace(engine.engine.log_header(), first_seq=start)
    engine.add("r1", prompt(9), max_tokens=4)
    engine.run()
    with LogWriter(log := tmp_path / "log.jsonl", header, state) as writer:
        for event in engine.events[start:]:
            writer.write(event)
    lengths = {ask.request_id: len(ask.outputs[0]) for ask in read_recorded_run(log).requests}
    assert lengths == {"r0": 20, "r1": 4}

    def reports(*names: str) -> list[dict]:
        command = [sys.executable, "-m", "minivllm.lab.race", str(log), str(tmp_path), *names]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    *progress, last = reports("--a", "static+contiguous", "--b", "continuous+paged")
    parts = [0, *(report["part"] for report in progress), 1]
    assert parts == sorted(parts) and last["notes"]
    for side, result in zip("ab", last["results"], strict=True):
        figures = measure_recording(tmp_path / f"{side}.jsonl").figures
        assert result == [figures["seconds"], figures["kv_waste"]]
        assert figures["finished_requests"] == 2
    (only,) = reports("--a", "static+", "--b", "continuous+paged")
    assert "unknown part ''" in only["error"]
