"""Random histories under pressure, each event of which `core_reference` must have predicted.

The seeds are fixed: a fault that these histories can show is shown in each run. Each flavour aims at a corner that a plain
draw seldom comes to; what came of it is counted, so that no flavour turns into a test of nothing.
"""

import random
from collections import Counter
from contextlib import suppress

import pytest
from support.engine.engine_fakes import EOS, WatchedEngine

from minivllm.errors import ConfigError, InvalidRequestError
from minivllm.events import types as ev

FLAVOURS = {
    "small pools": {"num_blocks": (4, 12), "block_size": (1, 4)},
    "priorities": {"num_blocks": (4, 12), "block_size": (1, 4), "scheduling_policy": "priority"},
    "samples and beams": {"num_blocks": (7, 14), "block_size": (2, 4), "wide": 0.7},
    "samples, beams and priorities": {
        "num_blocks": (7, 14), "block_size": (2, 4), "wide": 0.7, "scheduling_policy": "priority",
    },
    "small budgets": {"num_blocks": (6, 20), "block_size": (1, 4), "budget": (1, 6), "wide": 0.3},
    "whole prompts": {"num_blocks": (6, 14), "block_size": (2, 4), "enable_chunked_prefill": False},
    "no cache": {"num_blocks": (4, 10), "block_size": (1, 4), "enable_prefix_caching": False, "wide": 0.3},
    "baselines": {"num_blocks": (8, 20), "block_size": (1, 4), "baseline": True},
}  # fmt: skip

NUM_HISTORIES = 40
"""Of each flavour."""


class History:
    """One engine, and somebody who does what comes to mind."""

    def __init__(self, flavour: str, seed: int) -> None:
        self.rng = rng = random.Random(f"{flavour}-{seed}")
        options = dict(FLAVOURS[flavour])
        self.wide, is_baseline = options.pop("wide", 0.15), options.pop("baseline", False)
        num_blocks, block_size = (rng.randint(*options.pop(name)) for name in ("num_blocks", "block_size"))
        max_model_len = num_blocks * block_size + rng.randint(0, 1)
        budget = rng.randint(*options.pop("budget", (2, 16)))
        if is_baseline:
            options |= {"batching": rng.choice(["static", "sequential", "continuous"])}
            options |= rng.choice([{}, {"batch_delay": 0.03, "batch_size": 3}, {"kv_cache_allocator": "contiguous"}])
            max_model_len = rng.randint(2, num_blocks // 2) * block_size
        if options.get("enable_chunked_prefill") is False:
            budget = max_model_len + rng.randint(0, 4)
        self.engine = WatchedEngine(
            num_blocks, max_model_len, vocab_size=2, block_size=block_size, max_num_seqs=rng.randint(3, 8),
            max_num_batched_tokens=budget, **options,
        )  # fmt: skip
        self.max_model_len = max_model_len
        # Few stems over two letters, so that prompts have beginnings in common, and some are whole blocks long.
        self.stems = [
            [rng.randrange(2) for _ in range(rng.randint(1, max(1, max_model_len // rng.randint(2, 4))))]
            for _ in range(4)
        ]
        self.num_added = 0

    def add(self) -> None:
        rng, engine = self.rng, self.engine
        stem = rng.choice(self.stems)
        prompt = stem[: rng.randint(1, len(stem))] + [rng.randrange(2) for _ in range(rng.choice([0, 0, 1, 3]))]
        params = {"max_tokens": rng.randint(1, 12), "cache_salt": rng.choice([None, None, None, "red", "blue"])}
        if rng.random() < 0.15:
            params["prompt_logprobs"] = 0
        if rng.random() < self.wide:
            params |= {"n": rng.randint(2, 3), "use_beam_search": rng.random() < 0.4}
        if rng.random() < 0.2:
            params["stop_token_ids"] = rng.choice([[0], [1], [EOS]])
            params["min_tokens"] = rng.randint(0, params["max_tokens"])
        if engine.config.scheduling_policy == "priority":
            params["priority"] = rng.randint(0, 2)
        self.num_added += 1
        with suppress(InvalidRequestError):  # more than fits
            engine.add(f"r{self.num_added}", prompt, **params)

    def act(self) -> None:
        rng, engine = self.rng, self.engine
        roll = rng.random()
        if roll < 0.55:
            engine.step()
        elif roll < 0.7:
            engine.step_phase()
        elif roll < 0.94:
            self.add()
        elif engine.engine.next_phase == "schedule":
            if roll < 0.975 and engine.scheduler.requests:
                engine.engine.abort_request(rng.choice(list(engine.scheduler.requests)))
            else:
                name = rng.choice(["max_num_seqs", "max_num_batched_tokens"])
                with suppress(ConfigError):  # too little for somebody who was let in
                    engine.engine.set_option(name, rng.randint(1, getattr(engine.config, name)))
            engine.compare()

    def run(self) -> Counter:
        for _ in range(90):
            self.act()
        self.engine.run(max_steps=2_000)
        assert sorted(self.engine.reference.memory.free) == list(range(len(self.engine.pool.blocks)))
        return Counter(type(event) for event in self.engine.events)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_event_of_a_random_history_is_the_one_that_the_reference_predicts(flavour):
    kinds = sum((History(flavour, seed).run() for seed in range(NUM_HISTORIES)), Counter())
    assert min(kinds[ev.RequestFinished], kinds[ev.RequestDeferred]) > 400, kinds
    if flavour not in ("baselines", "small budgets"):
        assert min(kinds[ev.RequestPreempted], kinds[ev.RequestResumed]) > 60, kinds
    if "samples" in flavour:
        assert min(kinds[ev.BlockCopied], kinds[ev.RequestForked], kinds[ev.BeamPruned]) > 150, kinds
    if flavour not in ("baselines", "no cache"):
        assert min(kinds[ev.BlockHit], kinds[ev.BlockEvicted]) > 100, kinds
