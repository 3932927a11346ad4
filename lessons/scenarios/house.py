"""The scenarios as the house model plays them: it tells stories, and needs no penalty.

A frequency penalty keeps SmolLM2 from repeating itself. The house model never does, and with a
penalty it could not use a name twice. Its answers to questions are short, so in most scenarios its
users ask for stories. Greedy decoding would tell nearly the same story each time, so stories are
drawn at random. Seeds are fixed: each run tells the same stories.
"""

import dataclasses
from collections.abc import Mapping

from minivllm.lessons.scenarios.scenario import Message, Scenario, ScenarioRequest


@dataclasses.dataclass(frozen=True, slots=True)
class Story:
    prompt: str
    seed: int | None = None
    """Of the draws. None: the scenario's own way of sampling."""
    system: str | None = None
    """Replaces the scenario's system prompt."""


STORIES: Mapping[str, Mapping[str, Story]] = {
    "shared-prefix": {
        "ada": Story("Tell me a story about a dragon.", 8),
        "ben": Story("Tell me a story about a robot.", 4),
        "cleo": Story("Write a short story about a pirate named Zoe.", 3),
        "dan": Story("Tell me a story about Dan and Rosa.", 3),
        "eve": Story("Tell me a story about a lighthouse.", 3),
        "finn": Story("Write a story about a wizard named Finn.", 9),
        "gil": Story("Tell me a story about a baker.", 17),
        "hana": Story("Write a short story about Hana and a red kite.", 13),
    },
    "long-and-short": {"ada": Story("Write a story about Ada at the harbour.", 1)},
    "memory-pressure": {
        "ada": Story("Tell me a story about a dragon.", 5),
        "ben": Story("Tell me a story about a robot.", 3),
        "cleo": Story("Tell me a story about a pirate.", 10),
        "dan": Story("Tell me a story about a wizard.", 9),
    },
    "two-memories": {
        "ada": Story("Tell me a story about a dragon.", 8),
        "ben": Story("Tell me a story about a robot.", 10),
        "cleo": Story("Tell me a story about a pirate.", 18),
        "dan": Story("Tell me a story about a wizard.", 1),
        "eve": Story("Tell me a story about Dan and Rosa.", 6),
        "gil": Story("Tell me a story about a baker.", 13),
        "hana": Story("Tell me a story about a lighthouse.", 15),
    },
    # Long prompts, so that there are full blocks to share; the last one is partly full.
    "parallel-sampling": {
        "ada": Story(
            "Tell me a story about Eve at the lighthouse.",
            7,
            "You are the house model of minivllm. Be friendly. You answer in plain English."
            " Write short sentences. Never use long words. Do not write more than one"
            " paragraph.",
        ),
        "cleo": Story(
            "Tell me a story about Cleo at the market.",
            7,
            "You are a helpful assistant. Be friendly. The user may ask about stories,"
            " numbers, records, the world or the engine. Write short sentences. Never use long"
            " words.",
        ),
    },
    # Beams fork where a story can go on in several ways.
    "beams": {
        "ada": Story("Write a short story about a robot named Ivo."),
        "cleo": Story("Tell me a story about Hana and a red kite."),
    },
}
"""A scenario's name -> a user -> the story that the user asks the house model for."""
HOUSE_MODEL = "house"
"""Its name, as in `EngineConfig.model`."""
STORY_TOKENS = 200
"""Enough for a whole story."""
QUICK = {"attention_backend": "torch", "linear_backend": "torch"}
"""Options for the house model: without compiling C kernels, its first text appears sooner."""

OPTIONS: Mapping[str, Mapping[str, int]] = {
    # The most tokens of a sequence that the house model supports.
    "long-and-short": {"max_model_len": 1024},
    # Its stories end before they fill more.
    "memory-pressure": {"num_gpu_blocks_override": 20},
    # A story is longer than an answer, and each beam must be able to grow to its end.
    "beams": {"num_gpu_blocks_override": 64},
}
"""A scenario's name -> its engine options that the house model changes."""


def for_the_house_model(scenario: Scenario) -> Scenario:
    """Return the scenario with prompts, parameters and engine options for the house model."""
    stories = STORIES.get(scenario.name, {})
    waves = tuple(
        tuple(_adapted(request, stories.get(request.request_id)) for request in wave)
        for wave in scenario.waves
    )
    options = {**scenario.options, **OPTIONS.get(scenario.name, {})}
    return dataclasses.replace(scenario, options=options, waves=waves)


def _adapted(request: ScenarioRequest, story: Story | None) -> ScenarioRequest:
    params = dataclasses.replace(request.params, frequency_penalty=0.0)
    if story is None:
        return dataclasses.replace(request, params=params)
    params = dataclasses.replace(params, max_tokens=STORY_TOKENS)
    if story.seed is not None:
        params = dataclasses.replace(params, temperature=1.0, top_p=0.9, seed=story.seed)
    *system, _ = request.messages
    if story.system is not None:
        system = [Message(role="system", content=story.system)]
    messages = (*system, Message(role="user", content=story.prompt))
    return dataclasses.replace(request, messages=messages, params=params)
