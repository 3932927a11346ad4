"""Random histories of a small engine under pressure.

Used with `core_reference` and by tests that draw the engine's events. Seeds are fixed, so each run
finds the same faults. Each flavour aims at a rare case. At the end all requests finish, and the
outputs must equal those of the model run alone.
"""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from minivllm.core.beam_search import BeamSearch
from minivllm.core.request import Sequence
from minivllm.errors import ConfigError, InvalidRequestError
from minivllm.events import types as ev
from minivllm.kv_transfer.connector import Link
from minivllm.kv_transfer.consumer import KVConsumer
from minivllm.kv_transfer.producer import KVProducer
from minivllm.outputs import RequestOutput
from minivllm.speculation.proposers import Draft, Wanted
from support.engine import engine_fakes
from support.engine.engine_fakes import EOS, WatchedEngine, next_token
from support.engine.fake_host import FakeBytes, FakeFetch, FakeHost

FLAVOURS = {
    "small pools": {"num_blocks": (4, 12), "block_size": (1, 4)},
    "priorities": {"num_blocks": (4, 12), "block_size": (1, 4), "scheduling_policy": "priority"},
    "samples and beams": {"num_blocks": (7, 14), "block_size": (2, 4), "wide": 0.7},
    "samples, beams and priorities": {
        "num_blocks": (7, 14), "block_size": (2, 4), "wide": 0.7, "scheduling_policy": "priority",
    },
    "small budgets": {"num_blocks": (6, 20), "block_size": (1, 4), "budget": (1, 6), "wide": 0.3},
    "whole prompts": {"num_blocks": (6, 14), "block_size": (2, 4), "enable_chunked_prefill": False},
    "no cache": {
        "num_blocks": (4, 10), "block_size": (1, 4), "enable_prefix_caching": False, "wide": 0.3,
    },
    "baselines": {"num_blocks": (8, 20), "block_size": (1, 4), "baseline": True},
    "hardly any room": {
        "num_blocks": (2, 6), "block_size": (1, 3), "max_num_seqs": (1, 3), "wide": 0.4,
    },
    "drafts": {"num_blocks": (4, 14), "block_size": (1, 5), "wide": 0.3, "drafts": True},
    "drafts, priorities and small budgets": {
        "num_blocks": (6, 14), "block_size": (2, 4), "budget": (2, 8), "wide": 0.3, "drafts": True,
        "scheduling_policy": "priority",
    },
    "drafts under the baselines": {
        "num_blocks": (8, 20), "block_size": (1, 4), "baseline": True, "drafts": True,
    },
}  # fmt: skip

TIERED = {
    name: FLAVOURS[name]
    for name in ("small pools", "small budgets", "whole prompts", "hardly any room", "drafts")
}
TIERED |= {
    "samples, beams and priorities": FLAVOURS["samples, beams and priorities"] | {"wide": 0.6},
    "static batches": {"num_blocks": (4, 12), "block_size": (1, 4), "batching": "static"},
}
"""Histories with a second memory, whose loads take up to 20 steps."""


class TieredEngine(WatchedEngine):
    """`num_cpu_blocks` and so on: the connector's options; delay: see `FakeHost`."""

    def __init__(
        self, *args: int, num_cpu_blocks: int = 100, lazy_offload: bool = True,
        gigabytes_per_second: float = 25.0, delay: Callable[[], int] = lambda: 0, **options: object,
    ) -> None:  # fmt: skip
        extra = {"num_cpu_blocks": num_cpu_blocks, "lazy_offload": lazy_offload}
        extra["gigabytes_per_second"] = gigabytes_per_second
        config = {"kv_connector": "SimpleCPUOffloadConnector", "kv_connector_extra_config": extra}
        super().__init__(*args, predicted=False, kv_transfer_config=config, **options)
        self.connector = self.scheduler.connector
        self.connector._copier = FakeHost(self.runner, delay)


class ApartEngine(WatchedEngine):
    """A `kv_producer` or `kv_consumer`, with a fake in place of the other engine."""

    def __init__(self, *args: int, role: str, rng: random.Random, **options: object) -> None:
        super().__init__(*args, predicted=False, **options)
        core, memory, self.rng = self.engine.core, FakeBytes(self.runner), rng
        parts, longest = (
            (core.scheduler, core.bus, Link(core.clock, 0), memory),
            rng.choice([0, 20]),
        )
        self.connector = core.scheduler.connector = (
            KVProducer(*parts, rng.choice([0.05, 0.4]))
            if role == "kv_producer"
            else KVConsumer(*parts, lambda *it: FakeFetch(*it, memory, rng, longest), "a fake")
        )

    def step(self) -> list[RequestOutput]:
        if (leases := getattr(self.connector, "leases", None)) and self.rng.random() < 0.3:
            self.connector.read_leases.append(self.rng.choice([*leases]))
        return super().step()


class SeerWithErrors:
    """A proposer that knows the fake model's tokens, and is wrong in each with some probability."""

    def __init__(self, rng: random.Random, error: float) -> None:
        self.rng, self.error = rng, error

    def propose(self, wanted: list[Wanted]) -> list[Draft]:
        return [self._propose(*want) for want in wanted]

    def _propose(self, sequence: Sequence, num_tokens: int) -> Draft:
        token_ids = list(sequence.token_ids)
        for _ in range(self.rng.randint(0, num_tokens)):
            right = next_token(token_ids, 2, sequence.index)
            token_ids.append(1 - right if self.rng.random() < self.error else right)
        return Draft(token_ids[sequence.num_tokens :], "draft_model")

    def forget(self, sequence: Sequence) -> None:
        """It keeps nothing."""


def draft_options(rng: random.Random, block_size: int) -> dict:
    method = {"method": "ngram", "prompt_lookup_max": rng.randint(1, 3), "prompt_lookup_min": 1}
    proposer = None
    if rng.random() < 0.7:
        method = {"method": "draft_model", "model": "fake"}
        proposer = SeerWithErrors(rng, rng.choice([0.0, 0.2, 0.6]))
    config = {**method, "num_speculative_tokens": rng.randint(1, block_size)}
    return {"speculative_config": config, "proposer": proposer}


def letters(rng: random.Random, number: int) -> list[int]:
    return [rng.randrange(2) for _ in range(number)]


class History:
    """One engine and its random requests, aborts and option changes."""

    def __init__(self, flavour: str, seed: int, tiered: bool = False, role: str = "") -> None:
        self.rng = rng = random.Random(f"{flavour}-{seed}")
        options = dict((TIERED if tiered or role else FLAVOURS)[flavour])
        options |= {"role": role, "rng": rng} if role else {}
        if tiered:
            longest = rng.choice([0, 3, 20])
            options["delay"] = partial(rng.randint, 0, longest)
            options |= {"num_cpu_blocks": rng.randint(1, 40), "lazy_offload": rng.random() < 0.7}
        self.wide, is_baseline = options.pop("wide", 0.15), options.pop("baseline", False)
        drafts = options.pop("drafts", False)
        num_blocks = rng.randint(*options.pop("num_blocks"))
        block_size = rng.randint(*options.pop("block_size"))
        max_model_len = num_blocks * block_size + rng.randint(0, 1)
        budget = rng.randint(*options.pop("budget", (2, 16)))
        if is_baseline:
            options |= {"batching": rng.choice(["static", "sequential", "continuous"])}
            options |= rng.choice(
                [{}, {"batch_delay": 0.03, "batch_size": 3}, {"kv_cache_allocator": "contiguous"}]
            )
            max_model_len = rng.randint(2, num_blocks // 2) * block_size
        if options.get("enable_chunked_prefill") is False:
            budget = max_model_len + rng.randint(0, 4)
        if drafts:
            options |= draft_options(rng, block_size)
        self.engine = (TieredEngine if tiered else ApartEngine if role else WatchedEngine)(
            num_blocks, max_model_len, vocab_size=2, block_size=block_size,
            max_num_seqs=rng.randint(*options.pop("max_num_seqs", (3, 8))),
            max_num_batched_tokens=budget, **options,
        )  # fmt: skip
        self.max_model_len = max_model_len
        # A few stems over two letters: prompts share prefixes, and some end at a block boundary.
        self.stems = []
        for _ in range(4):
            longest = max(1, max_model_len // rng.randint(2, 4))
            self.stems.append(letters(rng, rng.randint(1, longest)))
        self.num_added = 0
        self.asked: dict[str, tuple[list[int], dict]] = {}

    def add(self) -> None:
        rng, engine = self.rng, self.engine
        stem = rng.choice(self.stems)
        prompt = stem[: rng.randint(1, len(stem))] + letters(rng, rng.choice([0, 0, 1, 3]))
        salt = rng.choice([None, None, None, "red", "blue"])
        params = {"max_tokens": rng.randint(1, 12), "cache_salt": salt}
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
        with suppress(InvalidRequestError):  # too large
            engine.add(f"r{self.num_added}", prompt, **params)
            self.asked[f"r{self.num_added}"] = (prompt, params)

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
                aborted = rng.choice(list(engine.scheduler.requests))
                engine.engine.abort_request(aborted)
                del self.asked[aborted]
            else:
                name = rng.choice(["max_num_seqs", "max_num_batched_tokens"])
                with suppress(ConfigError):  # too small for an admitted request
                    engine.engine.set_option(name, rng.randint(1, getattr(engine.config, name)))
            engine.compare()

    def run(self) -> Counter:
        for _ in range(90):
            self.act()
        self.engine.run(max_steps=2_000)
        self.check_that_nothing_is_left()
        for request_id, asked in self.asked.items():
            found = [output.token_ids for output in self.engine.outputs[request_id].outputs]
            assert found == self.expected(*asked), request_id
        return Counter(type(event) for event in self.engine.events)

    def check_that_nothing_is_left(self) -> None:
        engine, scheduler = self.engine, self.engine.scheduler
        if isinstance(engine, ApartEngine):  # time passes, and leases end
            engine.engine.core.clock.num_steps += 1000
            engine.connector.begin_step()
            engine.compare()
        assert engine.pool.num_free_blocks == len(engine.pool.blocks)
        assert all(block.ref_cnt == 0 for block in engine.pool.blocks)
        assert (len(scheduler.waiting), scheduler.running, scheduler.requests) == (0, [], {})
        assert scheduler.slots.num_free == scheduler.slots.limit
        if (connector := scheduler.connector) is not None:
            assert (connector.loads, connector.loaded) == ({}, {})
            pool = getattr(connector, "pool", engine.pool)
            assert pool.num_free_blocks == len(pool.blocks)
        assert engine.engine.core.output_processor._outputs == {}
        counters, num_let_in = scheduler.counters, len(engine.events_of(ev.RequestArrived))
        assert counters.finished_requests + counters.aborted_requests == num_let_in

    def expected(self, prompt: list[int], params: dict) -> list[list[int]]:
        """The output of the model run alone."""
        length, n = min(params["max_tokens"], self.max_model_len - len(prompt)), params.get("n", 1)
        stops = params.get("stop_token_ids", [])
        if params.get("use_beam_search"):
            return engine_fakes.expected_beams(
                prompt, BeamSearch(n, length, frozenset({EOS, *stops}))
            )
        least = max(params.get("min_tokens", 0), 1)
        texts = [engine_fakes.expected_output(prompt, length, 2, index=i) for i in range(n)]
        for i, text in enumerate(texts):
            ends = [end for end in range(least, length) if text[end - 1] in stops]
            texts[i] = text[: min(ends, default=length)]
        return texts


def run_tiered(flavour: str, seeds: range, role: str = "") -> Counter:
    """Run histories of `TIERED`. Every fourth is compared with its fold after each phase."""
    kinds: Counter = Counter()
    for seed in seeds:
        history = History(flavour, seed, tiered=not role, role=role)
        if seed % 4:
            history.engine.compare = lambda: None
        kinds += history.run()
        kinds += Counter(event.why for event in history.engine.events_of(ev.KVReleased))
    return kinds
