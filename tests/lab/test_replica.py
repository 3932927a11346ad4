"""`minivllm simulate`: it plans what the engine plans, and its events give its own state."""

from functools import partial
from types import SimpleNamespace

import pytest
from msgspec import structs
from support.engine.simulated_crowds import CPU, EVEN, STEP, config

from minivllm.clock import SimulatedClock
from minivllm.engine.engine import LLMEngine
from minivllm.engine.inspection import inspect_engine
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.ledger import RequestLedger, SequenceTimes
from minivllm.events.state import EngineState
from minivllm.lab.simulate.arrivals import Arrival
from minivllm.lab.simulate.replica import TEXT, Replica, make_request
from minivllm.lab.simulate.run import Setup, build_replicas, simulate
from minivllm.lab.simulate.workload import CrowdOptions, at_rate, draw_crowd
from minivllm.lessons.scenarios.scripted import ScriptedRunner, ScriptedTokenizer, serve
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


def decisions(events: list[ev.Event]) -> list[tuple]:
    found = []
    for event in events:
        if isinstance(event, PLANNED):
            names = set(event.__struct_fields__) - {"seq", "prompt_token_ids"}
            found.append((type(event), *((name, getattr(event, name)) for name in sorted(names))))
    return found


def events_of_the_engine(crowd: list[Arrival], **options: object) -> list[ev.Event]:
    built, clock = config(model="fake", **options), SimulatedClock()
    blocks, length = built.num_gpu_blocks_override, built.max_model_len
    runner = ScriptedRunner(
        blocks, length, lambda _: 7, lambda plan: clock.advance_to(clock.now() + STEP)
    )
    engine = LLMEngine(built, runner, ScriptedTokenizer(str, 2**32), clock=clock)
    events: list[ev.Event] = []
    engine.subscribe(events.append)

    def add(number: int, arrival: Arrival) -> None:
        params = SamplingParams(temperature=0, max_tokens=arrival.output_tokens, ignore_eos=True)
        prompt = {"prompt_token_ids": arrival.prompt(number)}
        engine.add_request(str(number), prompt, params, priority=arrival.priority)

    serve(engine, clock, [(each.at, partial(add, i, each)) for i, each in enumerate(crowd)])
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
    ids=str,
)
def test_the_simulation_plans_what_the_engine_plans(options, kind):
    ranks = {} if options.get("scheduling_policy") == "priority" else {"priority": 0}
    # The engine takes requests between two steps.
    crowd = [
        structs.replace(arrival, at=round(arrival.at / STEP) * STEP, **ranks)
        for arrival in at_rate(draw_crowd(CROWD, 512), rate=4.0)
    ]
    real, simulated = events_of_the_engine(crowd, **options), []
    setup = Setup(config(**options), 1, "random")
    replicas = build_replicas(setup, EVEN)
    replicas[0].bus.subscribe(simulated.append)
    simulate(setup, replicas, crowd)
    assert any(isinstance(event, kind) for event in real), "else the case is not covered"
    assert decisions(simulated) == decisions(real)


def state_of(replica: Replica) -> EngineState:
    """The whole state as plain data, even during a step."""
    names, explainer = SimpleNamespace(pieces={}), SimpleNamespace(grammar_of=lambda sequence: None)
    outputs = SimpleNamespace(visible_text=lambda sequence: TEXT * sequence.num_output_tokens)
    core = {"scheduler": replica.scheduler, "last_plan": replica.plan, "names": names}
    watchers = SimpleNamespace(explainer=explainer)
    return inspect_engine(SimpleNamespace(**core, watchers=watchers, output_processor=outputs))


@pytest.mark.parametrize("drafts", [None, {"method": "ngram", "num_speculative_tokens": 3}])
def test_the_events_fold_to_the_state_and_the_times_of_the_replica_at_any_time(drafts):
    built = config(num_gpu_blocks_override=16, speculative_config=drafts)
    setup = Setup(built, 1, "random", acceptance_rate=None if drafts is None else 0.6)
    (replica,) = replicas = build_replicas(setup, CPU)
    fold, ledger = Fold(replica.log_header("simulated")), RequestLedger(CROWD.num_prompts)
    replica.bus.subscribe(fold.apply)
    replica.bus.subscribe(lambda event: type(event) in ledger.APPLY and ledger.apply(event))
    for number, arrival in enumerate(at_rate(draw_crowd(CROWD, 512), rate=8.0)):
        replica.run_until(arrival.at)
        assert fold.state == state_of(replica)
        replica.add(arrival, make_request(number, arrival), arrival.at)
    simulate(setup, replicas, [])
    assert fold.state == state_of(replica)
    counters = fold.state.counters
    assert counters.num_preemptions > 0 and counters.finished_requests == 40
    assert (counters.spec_decode_num_accepted_tokens > 0) == (drafts is not None)
    times = SequenceTimes.__slots__
    folded = [[getattr(ledger.sequences[seq_id], name) for name in times] for seq_id in ledger.kept]
    assert folded == [[getattr(row, name) for name in times] for row in replica.finished]
