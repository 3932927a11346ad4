"""The sharing scenarios: forks without copies, copies at the first write, beams that are pruned."""

import dataclasses
from pathlib import Path

import pytest
from support.docs.played_scenarios import play
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.lessons.scenarios.scenarios import BEAMS, PARALLEL_SAMPLING
from minivllm.lessons.scenarios.stories import tell


@pytest.mark.parametrize("name", ["ada", "cleo"])
def test_parallel_sampling_shares_every_block_of_a_prompt_and_copies_the_last_one_lazily(
    runs, name
):
    played = runs[PARALLEL_SAMPLING.name]
    request = played.facts.requests[name]
    samples = {f"{name}.{i}" for i in range(4)}
    # A prompt that ends at a block boundary would leave nothing to copy.
    assert request.num_prompt_tokens % 16 > 0
    assert sum(request.chunks) + request.num_cached_tokens == request.num_prompt_tokens
    forks = [event for event in played.of(ev.RequestForked) if event.seq_id in samples]
    copies = [event for event in played.of(ev.BlockCopied) if event.seq_id in samples]
    (forked_in,) = {event.step for event in forks}
    assert len(forks) == len(copies) == 3
    assert {(event.step, event.logical) for event in copies} == {
        (forked_in + 1, request.num_prompt_tokens // 16)
    }
    assert len({event.src for event in copies}) == 1 and len({event.dst for event in copies}) == 3
    assert (request.num_sequences, request.num_together, request.num_copies) == (4, 4, 3)
    assert request.beams_found is None


def test_a_request_for_four_samples_waits_until_four_slots_are_free(runs):
    deferred = runs[PARALLEL_SAMPLING.name].of(ev.RequestDeferred)
    waits = [event for event in deferred if event.seq_id == "cleo.0"]
    assert waits and {(event.reason, event.need) for event in waits} == {("max_num_seqs", 4)}
    assert 0 < max(event.free for event in waits) < 4


def test_beams_fork_and_are_pruned_all_the_time_and_share_more_than_the_prompt(runs):
    played = runs[BEAMS.name]
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


@pytest.mark.parametrize("name", [PARALLEL_SAMPLING.name, BEAMS.name])
def test_the_largest_saving_by_sharing_matches_the_block_tables_of_one_step(runs, name):
    played = runs[name]
    fold, saved = Fold(played.engine.log_header()), []
    planning = False
    for event in played.events:
        if planning and not isinstance(event, (ev.StepScheduled, ev.BlockHashed)):
            running = (one for one in fold.sequences.values() if one.status == "RUNNING")
            entries = [block for one in running for block in one.block_table]
            saved.append(len(entries) - len(set(entries)))
        fold.apply(event)
        planning = isinstance(event, ev.StepScheduled) or (
            planning and isinstance(event, ev.BlockHashed)
        )
    most = played.facts.most_saved
    assert most.num_table_entries - most.num_blocks_in_use == max(saved) > 10


def test_samples_and_beams_that_are_preempted_are_counted_with_their_request(smollm2_path: Path):
    for scenario, blocks in ((PARALLEL_SAMPLING, 24), (BEAMS, 28)):
        # The newest request is preempted first: ben, a single sequence. Beams share so much that
        # many are needed.
        ada, ben, cleo = scenario.arrivals
        others = [
            dataclasses.replace(ada, request_id=name) for name in ("dan", "eve", "finn", "gil")
        ]
        crowd = (ben, ada, *others, cleo)
        crowded = dataclasses.replace(scenario, waves=(crowd,))
        options = {"num_gpu_blocks_override": blocks, "max_num_seqs": 25}
        pressed = play(crowded, "smollm2-tokens", smollm2_path, **options)
        preempted, facts = pressed.of(ev.RequestPreempted), pressed.facts
        assert any(not event.seq_id.endswith(".0") for event in preempted), scenario.name
        assert sum(one.num_preemptions for one in facts.requests.values()) == len(preempted)
        assert {one.name for one in facts.finished} == {one.request_id for one in crowd}
        assert len(tell(scenario, pressed.facts)) == 3
