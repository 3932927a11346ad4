"""The scenarios show what they claim, on the house model and with a chat model's tokenizer."""

import dataclasses
import json

import pytest
from support.docs.played_scenarios import play
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.events import types as ev
from minivllm.lessons.scenarios.figures import figures_of
from minivllm.lessons.scenarios.scenarios import SCENARIOS
from minivllm.lessons.scenarios.stories import tell


def test_shared_prefix_computes_the_system_prompt_once_for_all(runs):
    played = runs["shared-prefix"]
    facts = played.facts
    first, *others = facts.requests.values()
    system_blocks = 6
    assert first.num_cached_tokens == 0
    assert all(request.num_cached_tokens >= system_blocks * 16 for request in others)
    assert len(facts.hits_per_hash) >= system_blocks
    assert {facts.times_hashed[block_hash] for block_hash in facts.hits_per_hash} == {1}
    assert sum(facts.hits_per_hash.values()) * 16 == facts.fold.counters.prefix_cache_hits
    assert max(facts.hits_per_hash.values()) == 7


def test_burst_refills_a_slot_in_the_step_after_it_was_left(runs):
    played = runs["burst"]
    slots = SCENARIOS["burst"].options["max_num_seqs"]
    assert any(event.reason == "max_num_seqs" for event in played.of(ev.RequestDeferred))
    admitted = [event.step for event in played.of(ev.RequestAdmitted)]
    finished = [event.step for event in played.of(ev.RequestFinished)]
    assert len(admitted) == 12
    # From the fifth on, each admission comes one step after a finish.
    assert admitted[slots:] == [step + 1 for step in finished[: 12 - slots]]
    assert max(len(items) for items in played.steps().values()) == slots
    assert played.facts.slot_handovers == 12 - slots


def test_long_and_short_mixes_chunks_of_the_prompt_with_decodes(runs):
    played = runs["long-and-short"]
    budget = SCENARIOS["long-and-short"].options["max_num_batched_tokens"]
    mixed = [
        items
        for items in played.steps().values()
        if any(item.seq_id == "diary.0" and item.kind == "prefill" for item in items)
        and any(item.kind == "decode" for item in items)
    ]
    assert len(mixed) >= 8
    # In all of them but the last, decodes and chunk fill the whole budget.
    assert all(sum(item.num_tokens for item in items) == budget for items in mixed[:-1])
    # And no running answer misses a step.
    decoded = [event.step for event in played.of(ev.TokenSampled) if event.seq_id == "ada.0"]
    assert decoded == list(range(decoded[0], decoded[-1] + 1))
    assert played.facts.missed_turns == 0


def test_memory_pressure_preempts_and_resumes(runs):
    played = runs["memory-pressure"]
    preempted = played.of(ev.RequestPreempted)
    assert len(preempted) >= 2
    assert all(event.free < event.need for event in preempted)
    assert len(played.of(ev.RequestResumed)) == len(preempted)
    assert played.facts.recomputed_tokens > 0
    hits = sum(played.facts.hits_per_hash.values())
    assert played.facts.hits_on_free_blocks <= hits < len(played.of(ev.BlockHit))
    assert played.facts.fold.counters.evicted_blocks > 0


def test_speculation_writes_the_same_texts_in_fewer_steps(runs, model, chat_path):
    drafted = runs["speculation"]
    plain = play(SCENARIOS["speculation"], model, chat_path, speculative_config=None)
    assert {name: output.outputs[0] for name, output in drafted.outputs.items()} == {
        name: output.outputs[0] for name, output in plain.outputs.items()
    }
    if model == "house":  # random weights may repeat nothing
        assert drafted.facts.fold.counters.spec_decode_num_accepted_tokens > 0
        assert drafted.facts.fold.step < plain.facts.fold.step


def test_structured_makes_records_of_the_prompts_that_fail_without_a_schema(runs, model):
    if model != "house":
        return  # the fake model draws without the mask
    requests = runs["structured"].facts.requests
    texts = {name: request.texts[0] for name, request in requests.items()}
    for formed in ("ben", "dan"):
        assert json.loads(texts[formed]).keys() == {"name", "age", "city"}
    for plain in ("ada", "cleo"):
        with pytest.raises(ValueError, match=r"."):
            json.loads(texts[plain])
    assert texts["eve"] in ("Answer: Oslo", "Answer: Paris", "Answer: Rome")
    assert texts["finn"] == "The capital of France is Paris."
    assert runs["structured"].facts.num_forced > 5


@pytest.mark.parametrize("name", ["memory-pressure", "beams"])
def test_a_scenario_is_the_same_in_every_run(runs, model, chat_path, name):
    assert play(SCENARIOS[name], model, chat_path).events == runs[name].events


def test_a_request_for_a_step_that_never_comes_is_sent_when_all_others_have_finished(smollm2_path):
    (wave,) = SCENARIOS["burst"].waves
    late = dataclasses.replace(wave[2], after_steps=100_000)
    short = dataclasses.replace(SCENARIOS["burst"], waves=((wave[0], late),))
    assert sorted(play(short, "smollm2-tokens", smollm2_path).outputs) == ["ada", "cleo"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_request_arrives_in_its_step_and_is_answered_in_a_run_worth_watching(runs, name):
    played = runs[name]
    scenario = played.scenario
    arrived = {event.request_id: event.step for event in played.of(ev.RequestArrived)}
    # A request ends with the last of its sequences.
    ended = {event.seq_id.rpartition(".")[0]: event.step for event in played.of(ev.RequestFinished)}
    began = 0
    for wave in scenario.waves:
        assert {a.request_id: arrived[a.request_id] - began for a in wave} == {
            a.request_id: a.after_steps for a in wave
        }
        began = max(ended[arrival.request_id] for arrival in wave)
    assert sorted(played.outputs) == sorted(arrival.request_id for arrival in scenario.arrivals)
    assert all(out.finished and out.outputs[0].token_ids for out in played.outputs.values())
    counters = played.facts.fold.counters
    assert counters.finished_requests == len(scenario.arrivals)
    assert counters.invariant_violations == 0
    assert len(played.facts.fold.free_queue) == scenario.options["num_gpu_blocks_override"]
    assert 100 <= played.facts.fold.step <= 600
    assert len(tell(scenario, played.facts)) == len(figures_of(scenario, played.facts)) == 3


# ---- several sequences for each request ----


def test_four_samples_wait_until_four_slots_are_free_and_copy_the_last_block_of_their_prompt(runs):
    played = runs["parallel-sampling"]
    waits = [event for event in played.of(ev.RequestDeferred) if event.seq_id == "cleo.0"]
    assert waits and {(event.reason, event.need) for event in waits} == {("max_num_seqs", 4)}
    assert 0 < max(event.free for event in waits) < 4
    assert len(played.of(ev.RequestForked)) == len(played.of(ev.BlockCopied)) == 6


def test_beams_fork_and_are_pruned_all_the_time_and_share_more_than_the_prompt(runs):
    played = runs["beams"]
    for name in ("ada", "cleo"):
        request = played.facts.requests[name]
        forks = {
            event.step for event in played.of(ev.RequestForked) if event.seq_id.startswith(name)
        }
        pruned = [event.step for event in played.of(ev.BeamPruned) if event.seq_id.startswith(name)]
        assert request.num_together == 4 and request.num_prompt_tokens % 16 > 0
        assert len(forks) >= 10
        # Every fork but the first three replaces a beam that was pruned in the same step.
        assert set(pruned[:-3]) <= forks
        assert request.num_sequences == 1 + len(pruned)
        assert request.texts == [output.text for output in played.outputs[name].outputs]
        assert len({tuple(output.token_ids) for output in played.outputs[name].outputs}) == 4
