"""A race serves the recorded requests again, with the recorded tokens, on both sides."""

import dataclasses
from collections import defaultdict
from pathlib import Path

import pytest
from msgspec import structs
from support.engine.engine_fakes import WatchedEngine, prompt

from minivllm.configurations import parse_configuration
from minivllm.errors import SimulationError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.lab.race.recorded import read_recorded_run
from minivllm.lab.race.rerun import RecordedRun, race_options, rerun
from minivllm.tui.answers.verdict import why_faster

SECONDS = 0.25
"""How long every recorded step took."""


def read(folder: Path, engine: WatchedEngine, ahead: int = 1) -> RecordedRun:
    """Record an engine's events, as if each step had taken `SECONDS`, and `ahead` ran at once."""
    header = structs.replace(engine.engine.log_header(), mono=0.0, first_seq=0)
    with LogWriter(folder / "log.jsonl", header) as writer:
        for event in engine.events:
            event = structs.replace(event, t=SECONDS / ahead * event.step)
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
    rerun(run, race_options(run, name), path := folder / f"{name}.jsonl")
    recording = Recording(path)
    return recording.head, list(recording.events(0, len(recording)))


def tokens_of(events: list[ev.Event]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, ev.TokenSampled):
            found[event.seq_id].append(event.token_id)
    return found


@pytest.mark.parametrize(
    "name",
    ["static+contiguous", "continuous+paged", "sequential", "static+delay", "unchunked", "ngram"],
)
def test_a_request_gets_its_recorded_tokens_and_arrives_after_earlier_work(name, engine, tmp_path):
    run = read(tmp_path, engine)
    arrivals = {request.request_id: request.at for request in run.requests}
    assert [arrivals[name] for name in ("r0", "r1", "r2")] == [0, 0, 0]
    assert arrivals["r3"] == arrivals["gone"] > 0
    fold, events = ran(run, name, tmp_path)
    assert tokens_of(events) == tokens_of(engine.events) and len(tokens_of(events)) == 5
    assert fold.requests == {} and fold.counters.finished_requests == 5
    texts = [{done.seq_id: done.text for done in of.history} for of in (fold, engine.fold)]
    assert texts[0] == texts[1]
    # A request that arrives during a step is queued at its end.
    came = {event.request_id: event.t for event in events if isinstance(event, ev.RequestArrived)}
    assert all(came[name] >= at for name, at in arrivals.items())
    if name == "continuous+paged":  # as recorded: the same plans, in as many seconds
        kinds, both = ev.RequestArrived | ev.StepScheduled, (events, engine.events)
        plans = [[event.step for event in of if isinstance(event, kinds)] for of in both]
        assert plans[0] == plans[1]
        seconds = [event.t_model for event in events if isinstance(event, ev.StepEnd)]
        assert sum(seconds) == pytest.approx(SECONDS * len(seconds))
        # In a vLLM that runs ahead, steps overlap.
        ahead = read(tmp_path, engine, ahead=2).step_times.coefficients
        assert ahead == pytest.approx([0.5 * it for it in run.step_times.coefficients], rel=0.05)


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


def test_requests_that_had_not_ended_go_on_to_their_limit_after_the_tokens_so_far(tmp_path):
    engine = WatchedEngine(num_blocks=60, max_num_seqs=1)
    engine.add("r0", prompt(8), max_tokens=30)
    engine.add("r1", prompt(8), max_tokens=30)
    with pytest.raises(SimulationError, match="nothing to race"):
        read(tmp_path, engine)
    for _ in range(5):
        engine.step()
    run = read(tmp_path, engine)
    ((output,),) = (request.outputs for request in run.requests)
    assert output[:5] == tokens_of(engine.events)["r0.0"] and len(output) == 30
    assert len(set(output[5:])) == 25, "no draft of them is right"
    assert {run.pieces[token_id] for token_id in output[5:]} == {" …"}
    assert ran(run, "paged", tmp_path)[0].history[0].text.endswith(" … …")
    assert "r0 had not ended" in run.notes[1] and "r1 had no token" in run.notes[2]


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


def test_a_second_memory_loads_what_the_other_side_computes_again(tmp_path):
    engine = WatchedEngine(num_blocks=12, max_model_len=48)
    for name, token_ids in (("ada", prompt(18)), ("ben", [98] * 47), ("cleo", prompt(18))):
        engine.add(name, token_ids, max_tokens=1)
        engine.run()
    run = read(tmp_path, engine)
    header = structs.replace(run.header, block_bytes=25_000_000)  # a millisecond at 25 GB/s
    run = dataclasses.replace(run, header=header)
    (evicts, _), (saves, events) = (ran(run, name, tmp_path) for name in ("evict", "offload"))
    load = next(event for event in events if isinstance(event, ev.KVLoad))
    loaded = next(event for event in events if isinstance(event, ev.KVLoaded))
    assert loaded.t - load.t >= 0.001 * len(load.block_ids) > 0.002
    assert saves.header.num_cpu_blocks == 48
    again = f"computed {loaded.num_tokens} tokens again, which B loaded from the host's memory"
    assert again in why_faster(evicts, saves, 2.0, "AB")
