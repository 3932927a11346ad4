"""The scenarios as the house model plays them: it knows stories, and needs no penalty.

A frequency penalty keeps SmolLM2 from repeating itself. The house model never does, and with a
penalty it could not use a name twice. In `shared-prefix`, the eight users ask for stories, which
the house model tells best.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from minivllm.lessons.scenarios.scenarios import Scenario, ScenarioRequest

STORIES = {
    "ada": "Tell me a story about a dragon.",
    "ben": "Tell me a story about a robot.",
    "cleo": "Write a short story about a pirate named Zoe.",
    "dan": "Tell me a story about Dan and Rosa.",
    "eve": "Tell me a story about a lighthouse.",
    "finn": "Write a story about a wizard named Finn.",
    "gil": "Tell me a story about a baker.",
    "hana": "Write a short story about Hana and a red kite.",
}
"""A user of `shared-prefix` -> what the user asks the house model."""
QUICK = {"attention_backend": "torch", "linear_backend": "torch"}
"""Options for the house model: without compiling C kernels, its first text appears sooner."""
STORY_TOKENS = 200
"""Enough for a whole story."""


OPTIONS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        # The most tokens of a sequence that the house model supports.
        "long-and-short": {"max_model_len": 1024},
        # Its stories end before they fill more.
        "memory-pressure": {"num_gpu_blocks_override": 20},
    }
)
"""A scenario's name -> its engine options that the house model changes."""


def for_the_house_model(scenario: Scenario) -> Scenario:
    """Return the scenario with prompts, parameters and engine options for the house model."""
    stories = STORIES if scenario.name == "shared-prefix" else {}
    waves = tuple(
        tuple(_adapted(request, stories.get(request.request_id)) for request in wave)
        for wave in scenario.waves
    )
    options = MappingProxyType({**scenario.options, **OPTIONS.get(scenario.name, {})})
    return dataclasses.replace(scenario, options=options, waves=waves)


def _adapted(request: ScenarioRequest, story: str | None) -> ScenarioRequest:
    params = dataclasses.replace(request.params, frequency_penalty=0.0)
    if story is None:
        return dataclasses.replace(request, params=params)
    *system, _ = request.messages
    return dataclasses.replace(
        request,
        messages=(*system, {"role": "user", "content": story}),
        params=dataclasses.replace(params, max_tokens=STORY_TOKENS),
    )
