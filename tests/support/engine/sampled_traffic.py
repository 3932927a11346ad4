"""Random requests for a tiny random model: a hard case, as no token is much more likely than others."""

import dataclasses
from collections.abc import Callable
from itertools import count

import torch
from hypothesis import strategies as st

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.request import Sequence
from minivllm.engine.engine import LLMEngine
from minivllm.errors import SamplingError
from minivllm.events.state import Counters
from minivllm.kv_transfer.block_bytes import BlockBytes
from minivllm.kv_transfer.connector import Link
from minivllm.kv_transfer.consumer import Fetch, KVConsumer
from minivllm.kv_transfer.producer import KVProducer
from minivllm.outputs import CompletionOutput, RequestOutput, SampledToken
from minivllm.runtime.loader import LoadedModel
from minivllm.runtime.model_runner import ModelRunner
from minivllm.sampling_params import RequestOutputKind, SamplingParams

BASE = EngineConfig(
    model="tiny-random", device="cpu", dtype="float32", attention_backend="torch", block_size=8,
    max_model_len=96, max_num_seqs=8, check_invariants=True,
)  # fmt: skip
STEM = [7, 8, 9, 10, 7, 8, 9, 11, 7, 8, 9, 10, 40, 41, 42, 7, 8, 9]
CHOICES = {
    "temperature": [0.0, 0.7, 1.3], "top_p": [1.0, 0.5], "top_k": [0, 3], "min_p": [0.0, 0.1],
    "repetition_penalty": [1.0, 1.3], "presence_penalty": [0.0, 0.5],
    "frequency_penalty": [0.0, 0.5], "logit_bias": [None, {9: 3.0, 200: -5.0}],
    "min_tokens": [0, 6], "max_tokens": range(6, 25), "n": [1, 1, 4], "seed": [None, 3, 99],
    "stop": [[], ["e", "!"]], "stop_token_ids": [[], [9, 30, 31]],
    "logprobs": [None, 1], "prompt_logprobs": [None, 1],
}  # fmt: skip
SAMPLING = st.fixed_dictionaries({name: st.sampled_from(of) for name, of in CHOICES.items()})
PROMPTS = st.one_of(
    st.integers(1, len(STEM)).map(lambda length: STEM[:length]),
    st.lists(st.integers(0, 255), min_size=1, max_size=24),
    # A pattern that repeats, so that lookups match.
    st.builds(
        lambda pattern, times, tail: [*pattern * times, *tail],
        st.lists(st.integers(0, 255), min_size=1, max_size=5),
        st.integers(2, 4),
        st.lists(st.integers(0, 255), max_size=4),
    ),
)
REQUESTS = st.lists(st.tuples(PROMPTS, SAMPLING, st.integers(0, 8)), min_size=1, max_size=6)
"""(tokens of the prompt, sampling, the step in which it arrives)"""


@st.composite
def speculative(draw: st.DrawFn) -> dict[str, object]:
    k = draw(st.integers(1, 8))
    if draw(st.booleans()):
        return {"method": "draft_model", "model": "tiny-random", "num_speculative_tokens": k}
    lookup = {"prompt_lookup_max": draw(st.integers(1, 4)), "prompt_lookup_min": 1}
    return {"method": "ngram", "num_speculative_tokens": k, **lookup}


def completion(output: CompletionOutput) -> tuple:
    return output.token_ids, output.text, output.finish_reason, output.stop_reason


class Apart:
    """Two engines that look like one: each prompt goes through the first one, its blocks follow."""

    def __init__(self, config: EngineConfig, model: LoadedModel) -> None:
        self.engines = [LLMEngine.from_model(config, model, clock=VirtualClock()) for _ in "PD"]
        first, second = (
            (it.scheduler, it.bus, Link(it.clock, 0), BlockBytes(it.runner.plain.kv_caches))
            for it in (engine.core for engine in self.engines)
        )
        producer = first[0].connector = KVProducer(*first, 0.5)
        second[0].connector = KVConsumer(*second, lambda _, asked: Fetch(producer, asked), "P")
        self.inspect, self.late = self.engines[1].inspect, {}

    def add_request(self, request_id: str, *request: object) -> None:
        self.engines[0].add_request(request_id, request[0], SamplingParams(max_tokens=1))
        self.late[request_id] = request

    def has_unfinished_requests(self) -> bool:
        return any(engine.has_unfinished_requests() for engine in self.engines)

    def step(self) -> list[RequestOutput]:
        for output in self.engines[0].step():
            self.engines[1].add_request(output.request_id, *self.late.pop(output.request_id))
        return self.engines[1].step()


def pool_for(requests: list[tuple], num_spare_blocks: int) -> dict[str, int]:
    """The option for a pool with so many blocks beside those of the largest request."""
    largest = max(
        sampling["n"] * -(-(len(prompt) + sampling["max_tokens"]) // BASE.block_size)
        for prompt, sampling, _ in requests
    )
    return {"num_gpu_blocks_override": largest + num_spare_blocks}


def tokens_of(
    model: LoadedModel,
    requests: list[tuple],
    wrong_every: int = 0,
    kept: Callable[[CompletionOutput], object] = completion,
    make: Callable[[EngineConfig, LoadedModel], LLMEngine | Apart] = LLMEngine.from_model,
    **options: object,
) -> tuple[dict[str, list], Counters]:
    """What each request got, and the engine's totals.

    wrong_every: how often the draft model draws another token than it would; 0: never
    """
    engine = make(dataclasses.replace(BASE, **options), model)
    if wrong_every:
        _draw_wrongly(engine.core.scheduler._drafter._proposer._proposer._runner, wrong_every)
    found: dict[str, list] = {}
    late = sorted(enumerate(requests), key=lambda pair: pair[1][2])
    step = 0
    while late or engine.has_unfinished_requests():
        while late and late[0][1][2] <= step:
            number, (token_ids, sampling, _) = late.pop(0)
            params = SamplingParams(**sampling, output_kind=RequestOutputKind.FINAL_ONLY)
            engine.add_request(f"r{number}", {"prompt_token_ids": token_ids}, params)
        for output in engine.step():
            found[output.request_id] = list(map(kept, output.outputs))
        step += 1
    return found, engine.inspect().counters


def _draw_wrongly(runner: ModelRunner, every: int) -> None:
    """Make a draft model's runner draw another token, one time in `every`."""
    draw, num_draws = runner.sample_tokens, count()

    def draw_wrongly(
        sequences: list[Sequence], logits: torch.Tensor
    ) -> list[SampledToken | SamplingError]:
        sampled = draw(sequences, logits)
        for token in sampled:
            if isinstance(token, SampledToken) and next(num_draws) % every == 0:
                token.token_id = (token.token_id + 1) % 256
        return sampled

    runner.sample_tokens = draw_wrongly
