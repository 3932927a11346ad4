"""Memory use computed from events, against hand-made numbers and a naive implementation."""

from random import Random

import pytest
from support.engine.engine_fakes import WatchedEngine

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events.kv_usage import KVUsageMeter
from minivllm.runtime.step_result import Watch


def watched(**options: object) -> tuple[WatchedEngine, KVUsageMeter]:
    """Blocks of 4 tokens."""
    engine = WatchedEngine(**options)
    meter = KVUsageMeter(engine.engine.log_header())
    engine.engine.subscribe(meter.apply)
    return engine, meter


def test_a_paged_sequence_wastes_only_the_rest_of_its_last_block():
    engine, meter = watched()
    engine.add("a", [1] * 10, max_tokens=4)  # 13 tokens are computed in the end
    engine.run()
    found = [(sample.used, sample.reserved, sample.internal) for sample in meter.samples]
    assert found == [(10, 2, 0), (11, 1, 0), (12, 0, 0), (13, 0, 3)]
    assert [sample.waste for sample in meter.samples] == [2 / 12, 1 / 12, 0.0, 3 / 16]


def test_free_blocks_that_no_reservation_fits_into_are_external_waste():
    # Reservations of 4 blocks: a, b, and three blocks, too few for c. When a ends, c takes its
    # place.
    engine, meter = watched(kv_cache_allocator="contiguous", max_model_len=16, num_blocks=11)
    engine.add("a", [1], max_tokens=2)
    engine.add("b", [2], max_tokens=5)
    engine.add("c", [3], max_tokens=1)
    engine.run()
    assert [sample.num_running for sample in meter.samples] == [2, 2, 2, 1, 1]
    # Even with 4 free neighbours elsewhere.
    assert [sample.external for sample in meter.samples] == [12] * 5


def test_shared_slots_count_once_and_copies_count():
    engine, meter = watched()
    engine.add("a", [1] * 10, max_tokens=3, n=3)
    engine.run()
    forked = meter.samples[1]
    # Two shared full blocks, and for each sample its own last block with three tokens.
    assert forked.used == 4 + 4 + 3 * 3
    assert (forked.num_table_entries, forked.num_blocks_in_use) == (9, 5)
    assert forked.saved_by_sharing == pytest.approx(4 / 9)
    assert forked.num_running == 1, "three samples are one request"


def test_used_slots_match_a_naive_count_in_the_engine():
    engine, meter = watched(num_blocks=30, max_num_batched_tokens=12)
    found: list[tuple[int, int, int]] = []

    def count(plan: SchedulerOutput, watch: Watch) -> None:
        slots, blocks = set(), set()
        for sequence in engine.scheduler.running:
            for position in range(max(sequence.num_computed_tokens, sequence.num_cached_tokens)):
                slots.add((sequence.block_table[position // 4].block_id, position % 4))
            blocks |= {block.block_id for block in sequence.block_table}
        requests = {sequence.request.request_id for sequence in engine.scheduler.running}
        found.append((len(slots), len(blocks), len(requests)))

    engine.runner.before = count
    rng = Random(1)
    for i in range(12):
        beams = rng.random() < 0.3
        n = rng.randint(2, 3) if beams or rng.random() < 0.3 else 1
        prompt, max_tokens = [1] * rng.randint(1, 20), rng.randint(1, 12)
        engine.add(f"r{i}", prompt, max_tokens=max_tokens, n=n, use_beam_search=beams)
        for _ in range(rng.randint(0, 4)):
            engine.step()
    engine.run()
    assert [(use.used, use.num_blocks_in_use, use.num_running) for use in meter.samples] == found
