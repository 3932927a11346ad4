"""The host tier: what it stores and when, how a load waits, and what it forgets."""

import pytest
from support.engine.engine_fakes import FakeRunner, FakeTokenizer, expected_output, prompt
from support.engine.random_histories import TieredEngine

from minivllm.config import EngineConfig
from minivllm.core.invariants import check_invariants
from minivllm.engine.engine import LLMEngine
from minivllm.errors import ConfigError, SamplingError
from minivllm.events import types as ev
from minivllm.tui.answers.why_sequences import why_sequence
from minivllm.tui.state.model import DashboardModel


def serve(engine: TieredEngine, name: str, token_ids: list[int], max_tokens: int = 1) -> None:
    engine.add(name, token_ids, max_tokens)
    engine.run()


def evict(engine: TieredEngine, name: str = "other") -> None:
    """Fill the pool with other requests, so that it forgets everything before."""
    blocks = len(engine.pool.blocks)
    serve(engine, name, [98] * (blocks * 4 - 1))


def ask_twice(engine: TieredEngine, length: int = 18) -> None:
    """The second time, the blocks are only in the host's memory."""
    serve(engine, "first", prompt(length), 2)
    evict(engine)
    engine.add("second", prompt(length), max_tokens=2)


def test_a_lazy_tier_copies_what_the_next_steps_may_reuse_and_nothing_else():
    engine = TieredEngine(100, max_num_batched_tokens=8)  # the cursor looks at four blocks
    serve(engine, "a", prompt(18))
    for _ in range(3):
        serve(engine, "b", [7])
    assert not engine.events_of(ev.KVStore), "95 free blocks are reused before those of a"
    tight = TieredEngine(6, max_num_batched_tokens=8)
    serve(tight, "a", prompt(18))
    serve(tight, "b", [7])
    stored = tight.events_of(ev.KVStore)
    # Free are one block of a without a hash, one never used, and four with hashes: the cursor sees
    # the end of the prefix.
    assert [event.block_id for event in stored] == tight.pool.free_queue.ids()[2:4]
    assert {event.hash for event in stored} < {e.hash for e in tight.events_of(ev.BlockHashed)}


def test_an_eager_tier_copies_each_block_after_the_step_that_fills_it():
    engine = TieredEngine(100, lazy_offload=False, max_num_batched_tokens=8)
    serve(engine, "a", prompt(18), 3)
    assert [event.step for event in engine.events_of(ev.KVStore)] == [2, 2, 3, 3, 5]
    assert [e.hash for e in engine.events_of(ev.KVStore)] == [
        e.hash for e in engine.events_of(ev.BlockHashed)
    ]


def test_a_request_that_loads_owns_its_blocks_and_waits_while_others_run():
    engine = TieredEngine(12, delay=lambda: 3)
    ask_twice(engine)
    engine.add("passes", [5], max_tokens=8)
    engine.step()
    waiting = engine.fold.sequences["second.0"]
    assert (waiting.status, waiting.slot) == ("WAITING_FOR_REMOTE_KVS", 0)
    assert waiting.deferred == ("waiting_for_remote_kvs", 4, 0)
    assert len(waiting.block_table) == 5, "four blocks to fill, and one for the next tokens"
    assert engine.fold.loads["second.0"].block_ids == waiting.block_table[:4]
    assert (engine.fold.waiting, engine.fold.running) == (["second.0"], ["passes.0"])
    outputs = engine.run()
    (load,), (loaded,) = engine.events_of(ev.KVLoad), engine.events_of(ev.KVLoaded)
    assert (loaded.num_tokens, loaded.step) == (16, load.step + 4)
    admitted = [e for e in engine.events_of(ev.RequestAdmitted) if e.seq_id == "second.0"]
    assert [(e.num_cached_tokens, e.step) for e in admitted] == [(16, loaded.step)]
    assert outputs["second"].outputs[0].token_ids == expected_output(prompt(18), 2)
    assert engine.fold.counters.external_prefix_cache_hits == 16


def test_the_dashboard_says_what_a_request_waits_for_and_whose_the_loaded_blocks_are():
    engine = TieredEngine(12, delay=lambda: 3)
    ask_twice(engine)
    engine.step()
    model = DashboardModel(engine.engine.log_header())
    for event in engine.events:
        model.apply(event)
    said = "waits for 4 blocks to be loaded. It owns 5 blocks and slot 0;"
    assert said in why_sequence(model, "second.0")
    seen = len(engine.events)
    engine.run()
    hashed = [event.seq_id for event in engine.events[seen:] if isinstance(event, ev.BlockHashed)]
    assert hashed == ["second.0"] * 4


def test_hits_of_the_pool_come_first_and_the_host_gives_the_rest():
    engine = TieredEngine(12)
    serve(engine, "first", prompt(32))
    serve(engine, "other", [98] * 28)  # evicts the end of the prefix
    engine.add("second", prompt(32), max_tokens=1)
    engine.step()
    num_hits = len([e for e in engine.events_of(ev.BlockHit) if e.seq_id == "second.0"])
    (load,) = engine.events_of(ev.KVLoad)
    assert num_hits > 0 and num_hits + len(load.block_ids) == 8
    engine.run()
    assert engine.events_of(ev.StepScheduled)[-1].num_tokens == 1, "only the last token is computed"


def test_a_full_host_forgets_its_least_recently_used_block():
    engine = TieredEngine(8, num_cpu_blocks=6)
    for first in (0, 30, 60):
        serve(engine, str(first), prompt(16, first))
    serve(engine, "more", [98] * 24)
    lost = engine.events_of(ev.KVLost)
    assert {event.why for event in lost} == {"reused"}
    assert [event.hash for event in lost] == [
        event.hash for event in engine.events_of(ev.KVStore)[: len(lost)]
    ]


def test_two_loads_cannot_hold_each_others_blocks_for_ever():
    """vLLM's pull request 57104: of 7 blocks A needs 4 and 1 more, B 3 and 1 more. Each of them got
    the blocks to load, and none the block for its next token.
    """
    engine = TieredEngine(7, delay=lambda: 2, max_num_batched_tokens=32)
    prompts = {"A": prompt(17), "B": prompt(13, 40)}
    for name, token_ids in prompts.items():
        serve(engine, f"{name} before", token_ids)
    evict(engine)
    for name, token_ids in prompts.items():
        engine.add(name, token_ids, max_tokens=6)
    engine.step()
    a, b = (engine.fold.sequences[f"{name}.0"] for name in "AB")
    assert a.status == "WAITING_FOR_REMOTE_KVS"
    assert (b.block_table, b.deferred) == ([], ("no_blocks", 4, 2))
    outputs = engine.run(max_steps=60)
    for name, token_ids in prompts.items():
        assert outputs[name].outputs[0].token_ids == expected_output(token_ids, 6)
    assert len(engine.events_of(ev.KVLoad)) >= 2


def test_a_sequence_that_has_loaded_passes_a_head_that_does_not_fit():
    """vLLM's issue 45388: the head waited for blocks of a load that only the queue could admit."""
    engine = TieredEngine(10, delay=lambda: 2, scheduling_policy="priority")
    ask_twice(engine)
    engine.step()
    engine.add("urgent", [50] * 32, max_tokens=1, priority=-1)
    engine.step()
    assert engine.fold.sequences["urgent.0"].deferred == ("no_blocks", 8, 5)
    outputs = engine.run(max_steps=30)
    assert outputs.keys() >= {"second", "urgent"}


def test_an_abort_ends_a_load():
    engine = TieredEngine(12, delay=lambda: 5)
    ask_twice(engine)
    engine.step()
    engine.engine.abort_request("second")
    engine.compare()
    assert engine.events_of(ev.KVLoaded)[-1].num_tokens == 0
    assert (engine.fold.loads, engine.pool.num_free_blocks) == ({}, 12)
    engine.add("third", prompt(18), max_tokens=2)
    assert engine.run()["third"].outputs[0].token_ids == expected_output(prompt(18), 2)


@pytest.mark.parametrize("lazy", [True, False])
def test_nothing_that_a_failed_request_wrote_can_be_loaded(lazy: bool):
    engine = TieredEngine(6, lazy_offload=lazy, max_num_batched_tokens=16)
    draw = engine.runner.draw
    engine.runner.draw = lambda sequence: (
        SamplingError("It has NaN.", sequence.seq_id)
        if sequence.request.request_id == "bad"
        else draw(sequence)
    )
    engine.add("bad", prompt(18), max_tokens=2)
    engine.step()
    bad = engine.scheduler.requests["bad"].sequences[0]
    engine.scheduler.requeue(bad, bad)  # its blocks are free, and the tier copies them
    engine.run()
    assert engine.outputs["bad"].error
    evict(engine)
    serve(engine, "good", prompt(18))
    assert not engine.events_of(ev.KVLoad)
    assert "failed" in {event.why for event in engine.events_of(ev.KVLost)}


BREAK = {
    "a block that is being loaded has one owner and no hash": (
        lambda pool, host, load: pool.touch(load.blocks[0])
    ),
    "a block of the host is pinned exactly while loads read it": (
        lambda pool, host, load: host.release(load.sources[0])
    ),
    "a hash is in the host's memory at most once": (
        lambda pool, host, load: host.cache_block(
            host.pop_free_block(), load.sources[0].block_hash, None
        )
    ),
}


@pytest.mark.parametrize("rule", BREAK)
def test_the_invariants_of_both_pools_notice_a_fault(rule: str):
    engine = TieredEngine(12, delay=lambda: 5)
    ask_twice(engine)
    engine.step()
    assert check_invariants(engine.scheduler) == []
    BREAK[rule](engine.pool, engine.connector.pool, *engine.connector.loads.values())
    assert rule in {violation.name for violation in check_invariants(engine.scheduler)}


def test_on_the_virtual_clock_a_load_takes_its_bytes_over_the_bandwidth(monkeypatch):
    """4 blocks of 5 MB at 1 GB/s are 20 ms; a step of this clock takes 10 ms."""
    monkeypatch.setattr(FakeRunner, "block_bytes", 5_000_000)
    engine = TieredEngine(8, gigabytes_per_second=1.0)
    ask_twice(engine)
    engine.run()
    (load,), (loaded,) = engine.events_of(ev.KVLoad), engine.events_of(ev.KVLoaded)
    assert (len(load.block_ids), engine.engine.log_header().num_cpu_blocks) == (4, 100)
    assert loaded.t - load.t == pytest.approx(0.02)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"kv_connector": "LMCacheConnectorV1"}, "kv_connector must be one of SimpleCPUOffload"),
        ({"enable_prefix_caching": False}, "leave enable_prefix_caching on"),
        ({"kv_role": "kv_both"}, "must have the fields kv_connector, and may have kv_role"),
        ({"cpu_bytes_to_use": 0}, "cpu_bytes_to_use must be a whole number, at least 1; got 0"),
        ({"cpu_bytes_to_use": 7}, r"cpu_bytes_to_use \(7\) cannot hold even one block \(4 KiB\)"),
        ({"cpu_bytes": 7}, "kv_connector_extra_config may have cpu_bytes_to_use, num_cpu_blocks"),
        ({"cpu_bytes_to_use": 1, "num_cpu_blocks": 1}, "both say how large"),
        (
            {"kv_connector": "NixlConnector"},
            "kv_role of NixlConnector must be kv_producer or kv_con",
        ),
        ({"gigabytes_per_second": 0}, "gigabytes_per_second must be a finite number, above 0"),
    ],
)
def test_a_wrong_option_is_one_sentence(given: dict, message: str):
    engine = {name: value for name, value in given.items() if name == "enable_prefix_caching"}
    is_whole = given.keys() & {"kv_connector", "kv_role"}
    connector = given if is_whole else {"kv_connector": "SimpleCPUOffloadConnector"}
    connector |= {"kv_connector_extra_config": {} if is_whole or engine else given}
    runner = FakeRunner(8, 4)
    runner.block_bytes = 4096
    with pytest.raises(ConfigError, match=message):
        config = EngineConfig(model="fake", kv_transfer_config=connector, **engine)
        LLMEngine(config, runner, FakeTokenizer())
