"""A race serves the recorded requests again, with the recorded tokens, on both sides."""

import dataclasses
from pathlib import Path

import pytest
from msgspec import structs
from support.engine.engine_fakes import WatchedEngine, prompt

from minivllm.configurations import parse_configuration
from minivllm.errors import ConfigError, SimulationError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.lab.race.recorded import read_recorded_run
from minivllm.lab.race.rerun import RecordedRun, plan_side, race_options, rerun

SECONDS = 0.25
"""How long every recorded step took."""


def read(folder: Path, engine: WatchedEngine) -> RecordedRun:
    """Record an engine's events, as if each step had taken `SECONDS`, and read them."""
    header = structs.replace(engine.engine.log_header(), mono=0.0, first_seq=0)
    with LogWriter(folder / "log.jsonl", header) as writer:
        for event in engine.events:
            if isinstance(event, ev.StepEnd):
                event = structs.replace(event, t_model=SECONDS)
            writer.write(event)
    return read_recorded_run(folder / "log.jsonl")


@pytest.fixture(scope="module")
def engine() -> WatchedEngine:
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


def ran(run: RecordedRun, name: str, folder: Path) -> tuple[Fold, list[ev.Event]]:
    path = folder / f"{name}.jsonl"
    rerun(run, plan_side(run, race_options(run, name)), path)
    recording = Recording(path)
    return recording.head, list(recording.events(0, len(recording)))


def tokens_of(events: list[ev.Event]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event, ev.TokenSampled):
            found.setdefault(event.seq_id, []).append(event.token_id)
    return found


@pytest.mark.parametrize(
    "name",
    ["static+contiguous", "continuous+paged", "sequential", "static+delay", "unchunked", "ngram"],
)
def test_every_request_gets_its_recorded_tokens_and_text(name, engine, tmp_path):
    fold, events = ran(read(tmp_path, engine), name, tmp_path)
    assert tokens_of(events) == tokens_of(engine.events) and len(tokens_of(events)) == 5
    assert fold.requests == {} and fold.counters.finished_requests == 5
    texts, recorded = (
        {done.seq_id: done.text for done in folded.history} for folded in (fold, engine.fold)
    )
    assert texts == recorded


def test_requests_arrive_after_the_work_that_came_before_them(engine, tmp_path):
    run = read(tmp_path, engine)
    arrivals = {request.request_id: request.at for request in run.requests}
    assert arrivals == {"r0": 0, "r1": 0, "r2": 0, "r3": 6 * SECONDS, "gone": 6 * SECONDS}
    _, events = ran(run, "static+contiguous", tmp_path)
    for event in events:
        if isinstance(event, ev.RequestArrived):
            # A request that arrives during a step is queued at its end.
            assert event.t >= arrivals[event.request_id]
    _, events = ran(run, "continuous+paged", tmp_path)
    seconds = [event.t_model for event in events if isinstance(event, ev.StepEnd)]
    assert seconds == pytest.approx([SECONDS] * len(seconds), rel=0.01)


@pytest.mark.parametrize("beams", [False, True], ids=["samples", "beams"])
def test_samples_share_a_prompt_only_in_paged_memory(beams, tmp_path):
    engine = WatchedEngine(num_blocks=60, max_model_len=40)
    engine.add("r0", prompt(17), max_tokens=6, n=3, use_beam_search=beams, ignore_eos=True)
    engine.run()
    run = read(tmp_path, engine)
    (request,) = run.requests
    # The last token of a beam search is in its texts, but in none of its beams.
    assert [len(output) for output in request.outputs] == [6 - beams] * 3
    for name, forks in (("continuous+paged", 2), ("continuous+contiguous", 0)):
        fold, events = ran(run, name, tmp_path)
        assert fold.counters.forked_sequences == forks
        assert sorted(tokens_of(events).values()) == sorted(request.outputs)


def test_requests_that_had_not_ended_keep_the_tokens_so_far(tmp_path):
    engine = WatchedEngine(num_blocks=60, max_num_seqs=1)
    for number in range(2):
        engine.add(f"r{number}", prompt(8), max_tokens=30)
    for _ in range(5):
        engine.step()
    run = read(tmp_path, engine)
    assert [len(request.outputs[0]) for request in run.requests] == [5]
    assert run.notes[0] == "Unfinished, raced with the tokens so far: r0."
    assert run.notes[1] == "Left out, without a token: r1."


def test_a_recording_without_a_token_and_an_unknown_configuration_are_refused(engine, tmp_path):
    with pytest.raises(ConfigError, match="unknown part 'buddy'"):
        race_options(read(tmp_path, engine), "static+buddy")
    silent = WatchedEngine()
    silent.add("r0", prompt(5), max_tokens=5)
    with pytest.raises(SimulationError, match="nothing to race"):
        read(tmp_path, silent)


def test_a_race_in_int8_has_more_blocks_in_the_same_bytes_or_says_why_not(engine, tmp_path):
    run = read(tmp_path, engine)
    with pytest.raises(SimulationError, match="minivllm compare --a kv-float32"):
        race_options(run, "kv-int8")
    facts = {"kv_cache_dtype": "float32", "head_size": 64, "block_bytes": 6800}
    run = dataclasses.replace(run, header=structs.replace(run.header, **facts))
    fold, events = ran(run, "kv-int8", tmp_path)
    assert len(fold.blocks) == 60 * 256 // 68
    assert tokens_of(events) == tokens_of(engine.events)


def test_twice_the_blocks_or_slots_is_twice_those_of_the_recording(engine, tmp_path):
    run = read(tmp_path, engine)
    fold, events = ran(run, "paged+blocks-x2+slots-x2", tmp_path)
    assert (len(fold.blocks), fold.max_num_seqs) == (2 * 60, 2 * 3)
    assert fold.header.block_bytes == run.header.block_bytes
    assert tokens_of(events) == tokens_of(engine.events)
    memory = {"num_gpu_blocks_override": None, "kv_cache_memory_bytes": 100}  # of compare
    doubled = parse_configuration("blocks-x2").options_for(memory)
    assert doubled == {"num_gpu_blocks_override": None, "kv_cache_memory_bytes": 200}
