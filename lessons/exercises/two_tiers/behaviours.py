"""Checks for two-tiers: lookups in two small memories, then the whole engine with a host tier."""

from types import SimpleNamespace
from typing import Any

from minivllm.clock import VirtualClock
from minivllm.core.request import Request
from minivllm.events.bus import EventBus
from minivllm.events.state import Counters
from minivllm.kv_transfer import host_tier
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import manager_of
from minivllm.lessons.checker.cases.traces import build_engine, draw_request, draw_trace, run_trace
from minivllm.sampling_params import SamplingParams

NUM_BLOCKS = 40


def _prompt(draw: Draw) -> Case:
    return {
        "tokens": [draw.integer(0, 3), *draw.list_of(lambda d: d.integer(0, 1), 0, 11)],
        "saved": draw.list_of(Draw.boolean, 0, 6),
        "kept": draw.integer(0, 4),
    }


def prompts(draw: Draw, cursor: int | None = None) -> Case:
    """For each prompt: which of its blocks the host saves, and how many stay in the pool."""
    return {
        "block_size": draw.integer(1, 3),
        "num_cpu_blocks": draw.integer(2, 9),
        "prompts": draw.list_of(_prompt, 1, 5),
        "cursor": cursor,
        "scores": False,
    }


def _full(draw: Draw) -> Case:
    """The host has the beginning of a prompt, and the pool has other prompts."""
    case = prompts(draw, draw.choice((1, 2, None)))
    for number, prompt in enumerate(case["prompts"]):
        prompt["saved"] = [number % 2 == 0] * len(prompt["saved"])
        prompt["kept"] *= number % 2
    return case


def _connector(manager: Any, case: Case) -> Any:
    scheduler = SimpleNamespace(kv_cache_manager=manager, counters=Counters())
    link = host_tier.Link(VirtualClock(), 0.0)
    parts = EventBus(VirtualClock()), case["num_cpu_blocks"], host_tier.Copier(), link
    return host_tier.SimpleCPUOffloadConnector(scheduler, *parts, case["cursor"])


def _sequence(number: int, tokens: list[int], scores: bool = False) -> Any:
    params = SamplingParams(prompt_logprobs=1 if scores else None)
    return Request(f"r{number}", tokens, params, arrival_number=number).sequences[0]


def _fill(manager: Any, connector: Any, prompt: Case, number: int) -> None:
    """Compute the prompt, save some of its blocks, and evict all but the first few."""
    sequence = _sequence(number, prompt["tokens"])
    manager.allocate_slots(sequence, sequence.num_tokens)
    manager.cache_full_blocks(sequence, sequence.num_tokens)
    table = [*sequence.block_table]
    for block, is_saved in zip(table, prompt["saved"], strict=False):
        if is_saved:
            connector._store(block)
    manager.free(sequence)
    for block in table[prompt["kept"] :]:
        manager.pool.take_free_block(block)
        manager.pool.release(block)


def _tell(case: Case) -> Lines:
    manager = manager_of(NUM_BLOCKS, case["block_size"], enable_prefix_caching=True)
    connector = _connector(manager, case)
    for number, prompt in enumerate(case["prompts"]):
        _fill(manager, connector, prompt, number)
    for block in list(manager.pool.free_queue):
        if block.block_hash is None:  # so that cached blocks are reused next
            manager.pool.take_free_block(block)
    for number, prompt in enumerate(case["prompts"], len(case["prompts"])):
        sequence = _sequence(number, [*prompt["tokens"], 2], case["scores"])
        hits = manager.get_computed_blocks(sequence).num_cached_tokens
        found = connector.get_num_new_matched_tokens(sequence, hits)
        held = [copy.block_hash and copy.block_hash.hex()[:4] for copy in connector.pool.blocks]
        pinned = [copy.block_id for copy in connector.pool.blocks if copy.ref_cnt]
        yield (
            f"{sequence.token_ids} in blocks of {case['block_size']}: {hits} tokens in the prefix"
            f" cache, then {found} in the host's memory, which holds {held}; pinned {pinned}; free"
            f" in the pool, next first: {manager.pool.free_queue.ids()}"
        )


@behaviour(task=1, cases=prompts)
def counts(case: Case) -> Lines:
    """the host's tokens are those that follow the hits, up to the first block that it lacks

    The chain is one prompt. At which entry does the prefix cache end, and at which the host?
    """
    yield from _tell(case)


@behaviour(task=3, cases=lambda draw: {**prompts(draw), "scores": True}, examples=20)
def computes_all(case: Case) -> Lines:
    """nothing is loaded for a prompt whose log-probabilities are wanted

    They come from the model. Which tokens go through it?
    """
    yield from _tell(case)


@behaviour(task=4, cases=_full, examples=100)
def rescues(case: Case) -> Lines:
    """before a load, the host saves what the load will push out of the pool

    A load takes blocks for the whole prompt. Whose content is in them, and what if saving it needs
    a place that you have just counted?
    """
    yield from _tell(case)


class _ToyHost(host_tier.Copier):
    """Copies the digests of a `ToyRunner`."""

    def __init__(self, runner: Any, block_size: int) -> None:
        self._kv, self._size, self._held = runner._kv, block_size, {}

    def copy(self, stores: host_tier.Copies, loads: host_tier.Copies, overwritten: bool) -> Any:
        for at in range(self._size):
            for copy in stores:
                self._held[copy.dst, at] = self._kv.get(copy.src * self._size + at, 0)
            for copy in loads:
                self._kv[copy.dst * self._size + at] = self._held[copy.src, at]
        return self


def _tiered(draw: Draw) -> Case:
    fixed = {"num_blocks": draw.integer(5, 8), "block_size": 2, "enable_prefix_caching": True}
    extra = {"num_cpu_blocks": draw.integer(3, 12), "lazy_offload": draw.boolean()}
    tier = {"kv_connector": "SimpleCPUOffloadConnector", "kv_connector_extra_config": extra}
    return draw_trace(draw, draw_request, **fixed, kv_transfer_config=tier)


@behaviour(task=5, cases=_tiered, trace=True)
def loads(case: Case) -> Lines:
    """the engine emits the same events with a host tier

    Open it with `minivllm exercise diff`. At the first difference, which side loads more, and from
    which entry of the table on?
    """
    engine = build_engine(case)
    runner = engine.core.runner.plain
    engine.core.scheduler.connector._copier = _ToyHost(runner, case["block_size"])
    yield from run_trace(case, engine)
