"""A race serves the recorded requests again, with the recorded tokens, on both sides."""

import dataclasses
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs
from support.engine.engine_fakes import WatchedEngine, prompt

from minivllm.errors import ConfigError, SimulationError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.lab.compare.measure import measure_recording
from minivllm.lab.race.recorded import RecordedRequest, RecordedRun, read_recorded_run
from minivllm.lab.race.rerun import longest_that_fits, plan_side, rerun

SIDES = ("static+contiguous", "continuous+paged")
SECONDS = 0.25
"""How long every recorded step took, in the tests with times."""


def write(path: Path, engine: WatchedEngine, *, timed: bool = True, start: int = 0) -> Path:
    """Record an engine's events; timed: as if each step had taken `SECONDS`."""
    header = structs.replace(engine.engine.log_header(), mono=0.0, first_seq=start)
    with LogWriter(path, header) as writer:
        for event in engine.events[start:]:
            if timed and isinstance(event, ev.StepEnd):
                event = structs.replace(event, t_model=SECONDS)
            writer.write(event)
    return path


def several_requests() -> WatchedEngine:
    """Five requests of different lengths; two arrive later, and one is aborted."""
    engine = WatchedEngine(num_blocks=60, max_model_len=100, max_num_seqs=3)
    for number in range(3):
        engine.add(f"r{number}", prompt(20 + number, first=7 * number), max_tokens=5 + 9 * number)
    for _ in range(6):
        engine.step()
    engine.add("r3", prompt(20), max_tokens=9)
    engine.add("gone", prompt(5), max_tokens=50)
    for _ in range(18):
        engine.step()
    engine.engine.abort_request("gone")
    engine.run()
    return engine


def ran(run: RecordedRun, name: str, path: Path) -> tuple[Fold, list[ev.Event]]:
    notes: list[str] = []
    rerun(run, plan_side(run, name, longest_that_fits(run, notes)), path, lambda tokens: None)
    recording = Recording(path)
    return recording.head, list(recording.events(0, len(recording)))


def tokens_of(events: list[ev.Event]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event, ev.TokenSampled):
            found.setdefault(event.seq_id, []).append(event.token_id)
    return found


def test_drafts_at_the_end_of_the_shorter_sample_change_no_token(tmp_path: Path) -> None:
    run = read_recorded_run(write(tmp_path / "log.jsonl", several_requests()))
    samples = [[5, 6, 7, 5, 6, 7, 5, 6, 7, 5], [5, 6, 7, 5, 6, 9]]
    request = RecordedRequest("r", [5, 6, 7, 5, 6, 7], None, samples, at=0.0)
    run = dataclasses.replace(run, requests=[request])
    _, plain = ran(run, "plain", tmp_path / "plain.jsonl")
    fold, drafted = ran(run, "ngram", tmp_path / "ngram.jsonl")
    assert tokens_of(drafted) == tokens_of(plain) == {"r.0": samples[0], "r.1": samples[1]}
    assert fold.counters.spec_decode_num_accepted_tokens > 0
    assert drafted[-1].step < plain[-1].step


@pytest.mark.parametrize("name", [*SIDES, "sequential", "static+delay", "unchunked", "ngram"])
def test_every_request_gets_its_recorded_tokens_and_text(name: str, tmp_path: Path) -> None:
    engine = several_requests()
    run = read_recorded_run(write(tmp_path / "log.jsonl", engine))
    fold, events = ran(run, name, tmp_path / "side.jsonl")
    expected = tokens_of(engine.events)
    assert tokens_of(events) == expected and len(expected) == 5
    assert fold.requests == {} and fold.counters.finished_requests == 5
    texts = {done.seq_id: done.text for done in fold.history}
    recorded = {done.seq_id: done.text for done in engine.fold.history}
    assert texts == recorded
    config = {"batching": "continuous", "kv_cache_allocator": "paged"}
    header = Recording(tmp_path / "side.jsonl").header
    wanted = config | dict(
        pair
        for part, pair in {
            "static": ("batching", "static"),
            "sequential": ("batching", "sequential"),
            "contiguous": ("kv_cache_allocator", "contiguous"),
        }.items()
        if part in name
    )
    assert {key: header.config[key] for key in config} == wanted
    assert (header.num_blocks, header.max_num_seqs) == (60, 3)


def test_requests_arrive_after_the_work_that_came_before_them(tmp_path: Path) -> None:
    engine = several_requests()
    run = read_recorded_run(write(tmp_path / "log.jsonl", engine))
    arrivals = {request.request_id: request.at for request in run.requests}
    assert arrivals == {"r0": 0, "r1": 0, "r2": 0, "r3": 6 * SECONDS, "gone": 6 * SECONDS}
    _, events = ran(run, SIDES[0], tmp_path / "side.jsonl")
    for event in events:
        if isinstance(event, ev.RequestArrived):
            # A request that arrives during a step is queued at its end.
            assert event.t >= arrivals[event.request_id]
    assert all(one.t <= two.t for one, two in pairwise(events))


def test_equal_step_times_are_predicted_equally_long(tmp_path: Path) -> None:
    run = read_recorded_run(write(tmp_path / "log.jsonl", several_requests()))
    _, events = ran(run, SIDES[1], tmp_path / "side.jsonl")
    seconds = [event.t_model for event in events if isinstance(event, ev.StepEnd)]
    assert seconds == pytest.approx([SECONDS] * len(seconds), rel=0.01)
    assert "Tokens and step times are the recording's." in run.notes


def test_few_steps_scale_the_default_step_times(tmp_path: Path) -> None:
    engine = WatchedEngine()
    engine.add("r0", prompt(9), max_tokens=3)
    engine.run()
    run = read_recorded_run(write(tmp_path / "log.jsonl", engine))
    _, events = ran(run, "continuous", tmp_path / "side.jsonl")
    assert events[-1].t == pytest.approx(3 * SECONDS)


def test_a_recording_on_a_virtual_clock_gets_default_step_times(tmp_path: Path) -> None:
    run = read_recorded_run(write(tmp_path / "log.jsonl", several_requests(), timed=False))
    assert "No step times are recorded: these are smollm2's." in run.notes
    _, events = ran(run, SIDES[1], tmp_path / "side.jsonl")
    assert events[-1].t > 0


@pytest.mark.parametrize("beams", [False, True])
def test_samples_share_a_prompt_only_in_paged_memory(beams: bool, tmp_path: Path) -> None:
    engine = WatchedEngine(num_blocks=60, max_model_len=40)
    engine.add("r0", prompt(17), max_tokens=6, n=3, use_beam_search=beams, ignore_eos=True)
    engine.run()
    run = read_recorded_run(write(tmp_path / "log.jsonl", engine))
    (request,) = run.requests
    # The last token of a beam search is in its texts, but in none of its beams.
    assert [len(output) for output in request.outputs] == [6 - beams] * 3
    fold, events = ran(run, "continuous+paged", tmp_path / "b.jsonl")
    assert fold.counters.forked_sequences == 2
    assert sorted(tokens_of(events).values()) == sorted(request.outputs)
    fold, events = ran(run, "continuous+contiguous", tmp_path / "a.jsonl")
    assert fold.counters.forked_sequences == 0
    names = [event.request_id for event in events if isinstance(event, ev.RequestArrived)]
    assert names == ["r0-1", "r0-2", "r0-3"]
    assert sorted(tokens_of(events).values()) == sorted(request.outputs)


def test_samples_of_different_lengths_end_where_they_ended(tmp_path: Path) -> None:
    engine = WatchedEngine(num_blocks=60, max_model_len=90)
    # The fake model's samples meet this token after 2 and 13 tokens.
    engine.add("r0", prompt(10), max_tokens=60, n=2, stop_token_ids=list(range(0, 99, 9)))
    engine.run()
    recorded = tokens_of(engine.events)
    assert len({len(tokens) for tokens in recorded.values()}) == 2
    run = read_recorded_run(write(tmp_path / "log.jsonl", engine))
    _, events = ran(run, "continuous+paged", tmp_path / "b.jsonl")
    assert tokens_of(events) == recorded


def test_requests_that_had_not_ended_keep_the_tokens_so_far(tmp_path: Path) -> None:
    engine = WatchedEngine(num_blocks=60, max_num_seqs=1)
    for number in range(2):
        engine.add(f"r{number}", prompt(8), max_tokens=30)
    for _ in range(5):
        engine.step()
    run = read_recorded_run(write(tmp_path / "log.jsonl", engine))
    assert [len(request.outputs[0]) for request in run.requests] == [5]
    assert run.notes[:2] == [
        "Unfinished, raced with the tokens so far: r0.",
        "Left out, without a token: r1.",
    ]


def test_a_recording_that_begins_in_the_middle_of_a_run_is_raced_from_there(tmp_path: Path) -> None:
    engine = WatchedEngine(num_blocks=60, max_model_len=50)
    engine.add("r0", prompt(8), max_tokens=20)
    for _ in range(5):
        engine.step()
    state, start = engine.engine.inspect(), len(engine.events)
    header = structs.replace(engine.engine.log_header(), first_seq=start)
    engine.add("r1", prompt(9), max_tokens=4)
    engine.run()
    with LogWriter(tmp_path / "log.jsonl", header, state) as writer:
        for event in engine.events[start:]:
            writer.write(event)
    run = read_recorded_run(tmp_path / "log.jsonl")
    lengths = {request.request_id: len(request.outputs[0]) for request in run.requests}
    assert lengths == {"r0": 20, "r1": 4}
    fold, _ = ran(run, SIDES[0], tmp_path / "side.jsonl")
    assert fold.counters.finished_requests == 2


def test_contiguous_memory_that_is_too_small_shortens_the_longest_sequence(tmp_path: Path) -> None:
    engine = WatchedEngine(num_blocks=10, max_model_len=100)
    engine.add("r0", prompt(20), max_tokens=5)
    engine.run()
    run = read_recorded_run(write(tmp_path / "log.jsonl", engine))
    notes: list[str] = []
    assert longest_that_fits(run, notes) == 40
    assert notes == ["Longest sequence: 40 tokens, as many as all blocks hold."]
    fold, _ = ran(run, SIDES[0], tmp_path / "side.jsonl")
    assert fold.counters.finished_requests == 1


def test_a_recording_without_a_token_has_nothing_to_race(tmp_path: Path) -> None:
    engine = WatchedEngine()
    engine.add("r0", prompt(5), max_tokens=5)
    with pytest.raises(SimulationError, match="nothing to race"):
        read_recorded_run(write(tmp_path / "log.jsonl", engine))


def test_an_unknown_configuration_is_refused(tmp_path: Path) -> None:
    run = read_recorded_run(write(tmp_path / "log.jsonl", several_requests()))
    with pytest.raises(ConfigError, match="unknown part 'buddy'"):
        plan_side(run, "static+buddy", 100)


def test_the_process_reports_progress_and_ends_with_its_notes_or_an_error(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", several_requests())

    def reports(*names: str) -> list[dict]:
        command = [sys.executable, "-m", "minivllm.lab.race", str(log), str(tmp_path), *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return [json.loads(line) for line in done.stdout.splitlines()]

    *progress, last = reports("--a", SIDES[0], "--b", SIDES[1])
    parts = [report["part"] for report in progress]
    assert parts == sorted(parts) and all(0 <= part <= 1 for part in parts)
    assert last["notes"] and len(last["results"]) == 2
    for side, (seconds, waste) in zip("ab", last["results"], strict=True):
        recording = Recording(tmp_path / f"{side}.jsonl")
        last_event = next(iter(recording.events(len(recording) - 1, len(recording))))
        assert last_event.t == seconds
        measured = measure_recording(side, tmp_path / f"{side}.jsonl")
        assert waste == pytest.approx(measured.as_json()["kv_waste"])
    (only,) = reports("--a", "static+", "--b", SIDES[1])
    assert "unknown part ''" in only["error"]


def test_a_race_in_int8_has_more_blocks_in_the_same_bytes_or_says_why_not(tmp_path: Path) -> None:
    run = read_recorded_run(write(tmp_path / "log.jsonl", several_requests()))
    with pytest.raises(SimulationError, match="minivllm compare --a kv-float32"):
        plan_side(run, "kv-int8", 100)
    facts = {"kv_cache_dtype": "float32", "head_size": 64, "block_bytes": 6800}
    run = dataclasses.replace(run, header=structs.replace(run.header, **facts))
    fold, events = ran(run, "kv-int8", tmp_path / "int8.jsonl")
    assert len(fold.blocks) == 60 * 256 // 68
    assert tokens_of(events) == tokens_of(ran(run, "kv-float32", tmp_path / "a.jsonl")[1])
    header = Recording(tmp_path / "int8.jsonl").header
    assert (header.kv_cache_dtype, header.block_bytes) == ("int8_per_token_head", 6800 * 60 // 225)
    run = dataclasses.replace(run, header=header)
    assert plan_side(run, "kv-int8", 100).config.num_gpu_blocks_override == 225
    with pytest.raises(SimulationError, match="another type"):
        plan_side(run, "kv-float32", 100)
