"""A replica against the real engine: the same plans, the same memory, and valid recordings."""

import pytest
from support.engine.simulated_crowds import CPU, EVEN, STEP, config, run

from minivllm.clock import VirtualClock
from minivllm.engine.engine import LLMEngine
from minivllm.errors import SimulationError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.ledger import RequestLedger, SequenceTimes
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.lab.simulate.replica import make_request
from minivllm.lab.simulate.run import Setup, build_replicas, simulate
from minivllm.lab.simulate.workload import Arrival, CrowdOptions, at_rate, draw_crowd
from minivllm.sampling_params import SamplingParams

PLANNED = (
    ev.RequestArrived, ev.RequestAdmitted, ev.RequestResumed, ev.RequestDeferred,
    ev.RequestPreempted, ev.StepBegin, ev.StepScheduled, ev.BlockAllocated, ev.BlockHit,
    ev.BlockMissed, ev.BlockFreed, ev.BlockReleased, ev.RequestFinished,
)  # fmt: skip
"""The scheduler's decisions, without block and token ids, which depend on the model."""
CROWD = CrowdOptions(
    num_prompts=40, random_input_len=24, random_output_len=24, random_range_ratio=0.7,
    random_prefix_len=40, prefix_groups=3, urgent_share=0.3, seed=5,
)  # fmt: skip


DRAFTS = {"method": "ngram", "num_speculative_tokens": 3}


def short_of_memory(drafts: dict | None) -> Setup:
    built = config(num_gpu_blocks_override=16, speculative_config=drafts)
    return Setup(built, 1, "random", acceptance_rate=None if drafts is None else 0.6)


def crowd_on_whole_steps(options: CrowdOptions, rate: float) -> list[Arrival]:
    """Arrivals at step boundaries: the engine's virtual clock has no other times."""
    return [
        one._replace(at=round(one.at / STEP) * STEP)
        for one in at_rate(draw_crowd(options, 512), rate)
    ]


def decisions(events: list[ev.Event]) -> list[tuple]:
    found = []
    for event in events:
        if isinstance(event, PLANNED):
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            fields.pop("seq"), fields.pop("prompt_token_ids", None)
            if not isinstance(event, ev.StepScheduled):
                # The engine ends sequences before its clock has advanced by the step's time.
                fields.pop("t")
            found.append((type(event).__name__, *fields.items()))
    return found


def events_of_the_engine(crowd: list[Arrival], **options: object) -> list[ev.Event]:
    clock = VirtualClock(STEP)
    engine = LLMEngine.from_config(config(model="tiny-random", **options), clock=clock)
    events: list[ev.Event] = []
    engine.subscribe(events.append)
    names: dict[int, int] = {}  # token ids of the simulation -> small ones of the model
    waiting = list(reversed(list(enumerate(crowd))))
    while waiting or engine.has_unfinished_requests():
        while waiting and waiting[-1][1].at <= clock.now():
            number, arrival = waiting.pop()
            prompt = [
                names.setdefault(one, len(names))
                for one in make_request(number, arrival).prompt_token_ids
            ]
            params = SamplingParams(
                temperature=0, max_tokens=arrival.output_tokens, ignore_eos=True
            )
            priority = arrival.priority if options.get("scheduling_policy") == "priority" else 0
            engine.add_request(str(number), {"prompt_token_ids": prompt}, params, priority=priority)
        if engine.has_unfinished_requests():
            engine.step()
        else:
            clock.end_step()
    return events


def recorded(
    crowd: list[Arrival], acceptance_rate: float | None = None, **options: object
) -> list[ev.Event]:
    setup = Setup(config(**options), 1, "random", acceptance_rate=acceptance_rate)
    replicas = build_replicas(setup, EVEN)
    events: list[ev.Event] = []
    replicas[0].subscribe(events.append)
    simulate(setup, replicas, crowd)
    return events


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, ev.RequestDeferred),
        ({"num_gpu_blocks_override": 16}, ev.RequestPreempted),
        ({"num_gpu_blocks_override": 16, "scheduling_policy": "priority"}, ev.RequestPreempted),
        ({"enable_prefix_caching": False}, ev.RequestDeferred),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 512}, ev.RequestDeferred),
        ({"max_num_batched_tokens": 16, "max_num_seqs": 8}, ev.StepScheduled),
    ],
    ids=["usual", "short of memory", "priority", "no cache", "whole prompts", "small budget"],
)
def test_the_simulation_plans_what_the_engine_plans(options, kind):
    crowd = crowd_on_whole_steps(CROWD, rate=4.0)
    if options.get("scheduling_policy") != "priority":
        crowd = [one._replace(priority=0) for one in crowd]
    real, simulated = (
        decisions(events_of_the_engine(crowd, **options)),
        decisions(recorded(crowd, **options)),
    )
    assert any(one[0] == kind.__name__ for one in real), (
        "these requests do not cover the compared case"
    )
    assert simulated == real


def test_with_drafts_that_are_always_right_it_plans_what_a_model_that_drafts_for_itself_plans():
    crowd = [one._replace(priority=0) for one in crowd_on_whole_steps(CROWD, rate=4.0)]
    options = {"num_gpu_blocks_override": 128, "enable_prefix_caching": False}
    own = {"method": "draft_model", "model": "tiny-random", "num_speculative_tokens": 3}
    real = events_of_the_engine(crowd, speculative_config=own, **options)
    simulated = recorded(crowd, 1.0, speculative_config=DRAFTS, **options)
    assert any(isinstance(one, ev.DraftProposed) for one in real)
    assert decisions(simulated) == decisions(real)


@pytest.mark.parametrize("drafts", [None, DRAFTS], ids=["plain", "drafts"])
def test_a_recording_folds_to_the_state_of_the_replica_at_any_time(drafts):
    crowd = at_rate(draw_crowd(CROWD, 512), rate=4.0)
    setup = short_of_memory(drafts)
    (replica,) = replicas = build_replicas(setup, CPU)
    fold = Fold(replica.log_header("simulated"))
    replica.subscribe(fold.apply)
    checked = 0
    for number, arrival in enumerate(crowd):  # in the middle of steps and between them
        replica.run_until(arrival.at)
        assert fold.state == replica.inspect()
        replica.add(arrival, make_request(number, arrival))
        checked += 1
    simulate(setup, replicas, [])
    assert fold.state == replica.inspect()
    assert checked == 40 and fold.state.counters.num_preemptions > 0
    assert fold.state.counters.finished_requests == 40
    assert (fold.state.counters.spec_decode_num_accepted_tokens > 0) == (drafts is not None)


def test_the_same_crowd_makes_the_same_recording_byte_for_byte(tmp_path):
    def record(name: str, seed: int) -> bytes:
        crowd = at_rate(draw_crowd(CrowdOptions(num_prompts=20, seed=seed), 512), rate=3.0)
        setup = Setup(config(), num_replicas=2, router="least-loaded")
        replicas = build_replicas(setup, CPU)
        with LogWriter(tmp_path / name, replicas[0].log_header("simulated")) as writer:
            replicas[0].subscribe(writer.write)
            simulate(setup, replicas, crowd)
        return (tmp_path / name).read_bytes()

    first = record("a.jsonl", seed=1)
    assert first == record("b.jsonl", seed=1)
    assert first != record("c.jsonl", seed=2)
    assert len(Recording(tmp_path / "a.jsonl")) > 100


def test_requests_wait_for_the_end_of_a_step_but_an_idle_replica_starts_at_once():
    crowd = [Arrival(0.0, 8, 3), Arrival(0.5 * STEP, 8, 1), Arrival(100.3, 8, 2)]
    (replica,) = run(crowd)
    second, last, first = sorted(replica.finished, key=lambda life: life.output_tokens)
    assert (first.first_token, first.last_token) == (STEP, 3 * STEP)
    assert (second.arrived, second.admitted, second.first_token) == (0.5 * STEP, STEP, 2 * STEP)
    assert last.first_token == pytest.approx(100.3 + STEP)
    assert sum(replica.samples.seconds) == pytest.approx(5 * STEP)
    # An answer ends at the model's context limit.
    (replica,) = run([Arrival(0.0, 500, 100)], num_gpu_blocks_override=32)
    assert [life.output_tokens for life in replica.finished] == [12]


@pytest.mark.parametrize("drafts", [None, DRAFTS], ids=["plain", "drafts"])
def test_the_times_of_served_requests_are_those_that_the_ledger_folds_from_the_events(drafts):
    setup = short_of_memory(drafts)
    (replica,) = build_replicas(setup, CPU)
    ledger = RequestLedger(CROWD.num_prompts)
    replica.subscribe(lambda event: type(event) in ledger.APPLY and ledger.apply(event))
    simulate(setup, [replica], at_rate(draw_crowd(CROWD, 512), rate=8.0))
    assert replica.scheduler.counters.num_preemptions > 0
    folded = [
        [getattr(record, name) for name in SequenceTimes.__slots__]
        for record in map(ledger.sequences.get, ledger.kept)
    ]
    assert folded == [
        [getattr(one, name) for name in SequenceTimes.__slots__] for one in replica.finished
    ]


def test_gaps_between_tokens_are_counted_over_preemptions_too():
    crowd = at_rate(draw_crowd(CROWD, 512), rate=8.0)
    (replica,) = run(crowd, fit=CPU, num_gpu_blocks_override=16)
    assert replica.scheduler.counters.num_preemptions > 0
    output_tokens = sum(one.output_tokens for one in crowd)
    assert sum(replica.gaps.counts) == output_tokens - len(crowd)
    total = sum(
        seconds * count
        for seconds, count in zip(replica.gaps.seconds, replica.gaps.counts, strict=True)
    )
    assert total == pytest.approx(
        sum(life.last_token - life.first_token for life in replica.finished)
    )


def test_a_request_that_no_cache_can_hold_gives_one_sentence():
    with pytest.raises(SimulationError, match=r"needs up to 32 KV cache blocks .* the cache has 8"):
        run([Arrival(0.0, 400, 112)], num_gpu_blocks_override=8)
