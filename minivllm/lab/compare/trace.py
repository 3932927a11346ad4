"""Traces: the same requests in the same order for both sides of a comparison.

A trace is one of the demo's scenarios, or requests with random lengths that all arrive at the
start, or agents, whose prompts grow from turn to turn. Every request generates `max_tokens` tokens,
so that neither side wins with shorter answers. With random lengths, `max_model_len` is longer than
any request: a server cannot know them before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from minivllm import runtime
from minivllm.errors import ConfigError
from minivllm.lessons.scenarios.scenario import Scenario, ScenarioRequest
from minivllm.lessons.scenarios.scenarios import SCENARIOS
from minivllm.sampling_params import RequestOutputKind, SamplingParams


def _halves(rng: Random) -> tuple[int, int]:
    total = rng.randint(64, 1024)
    return total // 2, total - total // 2


LENGTHS: dict[str, tuple[int, Callable[[Random], tuple[int, int]]]] = {
    "lengths-64-1024": (48, _halves),
    "lengths-8-256": (96, lambda rng: (rng.randint(8, 256), rng.randint(8, 256))),
}
"""Name -> number of requests, and how to draw the tokens of a prompt and of its output."""
_OPTIONS = {
    # Today's small models allow this length; so do `tiny-random` and the OPT models of the paper.
    "max_model_len": 2048,
    # 576 blocks of 16 tokens hold four and a half sequences of this length.
    "num_gpu_blocks_override": 576,
    "max_num_seqs": 64,
    "max_num_batched_tokens": 512,
}
AGENTS = "agents"
_NUM_AGENTS, _NUM_TURNS, _TURN_TOKENS = 16, 10, 100
"""Each agent's last prompt takes 63 blocks of 16 tokens: a quarter of them all are 252 blocks."""
TRACE_NAMES = (*LENGTHS, AGENTS, *SCENARIOS)


def fitted(trace: Scenario, longest: int) -> Scenario:
    """The trace for a model that supports sequences of at most `longest` tokens."""

    def shorter(request: ScenarioRequest) -> ScenarioRequest:
        prompt = request.prompt_token_ids[-(longest - 1) :]
        max_tokens = min(request.params.max_tokens, longest - len(prompt))
        params = replace(request.params, max_tokens=max_tokens)
        return replace(request, prompt_token_ids=prompt, params=params)

    options = {**trace.options, "max_model_len": min(trace.options["max_model_len"], longest)}
    waves = tuple(tuple(map(shorter, wave)) for wave in trace.waves)
    return replace(trace, options=options, waves=waves)


def make_trace(name: str, tokenizer: runtime.Tokenizer, seed: int) -> Scenario:
    """Return requests whose prompts are token ids, and options of the engine that serves them.

    The options always set `max_model_len` and `max_num_batched_tokens`.
    """
    if name in LENGTHS:
        return _trace_of_lengths(name, tokenizer.vocab_size, seed)
    if name == AGENTS:
        return _trace_of_agents(tokenizer.vocab_size, seed)
    if name not in SCENARIOS:
        raise ConfigError(f"There is no scenario {name!r}: use one of {', '.join(TRACE_NAMES)}.")

    def in_tokens(request: ScenarioRequest) -> ScenarioRequest:
        prompt = tokenizer.apply_chat_template(list(request.messages))
        params = _to_the_end(request.params)
        return replace(request, messages=(), prompt_token_ids=prompt, params=params)

    waves = (tuple(map(in_tokens, wave)) for wave in SCENARIOS[name].waves)
    return replace(SCENARIOS[name], waves=tuple(waves))


def _trace_of_lengths(name: str, vocab_size: int, seed: int) -> Scenario:
    rng = Random(f"{name}/{seed}")
    num_requests, draw = LENGTHS[name]
    wave = []
    for number in range(num_requests):
        prompt_len, output_len = draw(rng)
        # Random tokens, so that no two requests share a prefix.
        prompt = [rng.randrange(vocab_size) for _ in range(prompt_len)]
        wave.append(_request(f"r{number}", prompt, output_len))
    return Scenario(name=name, teaches="", watch="", options=_OPTIONS, waves=(tuple(wave),))


def _trace_of_agents(vocab_size: int, seed: int) -> Scenario:
    """Conversations that take turns. A prompt is that of the turn before, and the result of a tool:
    random tokens, in which the short answer is.
    """
    rng, prompts, waves = Random(f"agents/{seed}"), [[] for _ in range(_NUM_AGENTS)], []
    for turn in range(_NUM_TURNS):
        for prompt in prompts:
            prompt += [rng.randrange(vocab_size) for _ in range(_TURN_TOKENS)]
        requests = (_request(f"a{i}.{turn}", list(prompt), 16) for i, prompt in enumerate(prompts))
        waves.append(tuple(requests))
    options = {**_OPTIONS, "num_gpu_blocks_override": 252, "max_num_seqs": 16}
    return Scenario(name=AGENTS, teaches="", watch="", options=options, waves=tuple(waves))


def _request(name: str, prompt: list[int], output_len: int) -> ScenarioRequest:
    params = _to_the_end(SamplingParams(temperature=0, max_tokens=output_len))
    return ScenarioRequest(request_id=name, prompt_token_ids=prompt, params=params)


def _to_the_end(params: SamplingParams) -> SamplingParams:
    # A grammar says where an output may end, so it contradicts ignore_eos.
    ignore_eos = params.structured_outputs is None
    return replace(params, ignore_eos=ignore_eos, output_kind=RequestOutputKind.FINAL_ONLY)
