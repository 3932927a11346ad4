"""The training text: an endless, seeded stream of documents, chats and plain text.

    exchange(random)        a question and its answer, of one of the kinds below
    documents(seed)         chats of one to three exchanges, some with a system prompt; plain text

One in sixteen prompts is held out: training never shows it, and the checker asks only these.
"""

import json
import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from grammar import fill
from stories import write_request, write_story
from tasks import TASKS, neighbour_questions, person, server_request
from words import NAMES

from minivllm.lessons.scenarios.scenarios import SCENARIOS, SHARED_PREFIX

END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
PROMPT_WEIGHT = 0.1
"""Weight of a prompt's token in the loss: the model should learn to answer, not to ask."""

WeightedText = tuple[str, float]
"""A piece of a document, and the weight of its tokens in the loss."""


@dataclass(frozen=True, slots=True)
class Exchange:
    kind: str
    prompt: str
    answer: str


_WEIGHTS = {
    "story": 22, "about": 10, "serving": 20, "world": 18, "count": 7, "order": 7, "sum": 7,
    "copy": 14, "json": 9,
}  # fmt: skip
KINDS = tuple(_WEIGHTS)
_TERMS = (
    "What is {}?", "Explain {}.", "What does {} mean?", "Can you explain {}?", "Tell me about {}.",
    "Describe {} in one sentence.",
)  # fmt: skip
_PREFIXES = ("", "", "", "", "Please answer: ", "A question: ", "{name} asks: ", "Hello! ")
_RULES = (
    "You are a helpful assistant.", "You answer in plain English.", "Write short sentences.",
    "You are the house model of minivllm.", "Begin with the answer itself.", "Be friendly.",
    "If you do not know the answer, say so.", "Explain one thing at a time.",
    "You help people who learn how a language model is served.", "Never use long words.",
    "Give one example if it helps.", "Do not write more than one paragraph.",
    "The user may ask about stories, numbers, records, the world or the engine.",
)  # fmt: skip
_TEACHER = SHARED_PREFIX.waves[0][0].messages[0]["content"]


@cache
def topics(name: str) -> list[dict]:
    """The topics of `serving` or `world`, each with all ways to ask for it."""
    found = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))["topic"]
    for topic in found:
        topic.setdefault("ask", [])
        if "term" in topic:
            topic["ask"] += [pattern.format(topic["term"]) for pattern in _TERMS]
        if "scenario" in topic:
            scenario, request_id = topic["scenario"].split()
            topic["ask"].append(_prompt_of(scenario, request_id))
    return found


def _prompt_of(scenario: str, request_id: str) -> str:
    arrivals = {arrival.request_id: arrival for arrival in SCENARIOS[scenario].arrivals}
    return arrivals[request_id].messages[-1]["content"]


def is_held_out(prompt: str) -> bool:
    """One prompt in sixteen, always the same ones; but never a fact or a prompt of the demo.

    Nobody can know that h comes after g, or who minivllm is, without having been taught it.
    """
    return zlib.crc32(prompt.encode()) % 16 == 0 and prompt not in _always_taught()


@cache
def _always_taught() -> frozenset[str]:
    demo = (
        arrival.messages[-1]["content"]
        for scenario in SCENARIOS.values()
        for arrival in scenario.arrivals
    )
    facts = (ask for name in ("serving", "world") for topic in topics(name) for ask in topic["ask"])
    return frozenset((*demo, *facts, *neighbour_questions()))


def exchange(random: Random, kind: str, *, held_out: bool = False) -> Exchange:
    """Draw prompts of a kind until one is (or is not) held out."""
    while True:
        drawn = _draw(random, kind)
        if is_held_out(drawn.prompt) == held_out:
            return drawn


def _draw(random: Random, kind: str) -> Exchange:
    if kind == "story":
        prompt, fixed = write_request(random)
        return Exchange(kind, prompt, write_story(random, fixed).text)
    if kind == "about":
        story = write_story(random)
        question, answer = random.choice(
            [*story.plot["ask"], ["Tell this story in one sentence.", story.plot["summary"][0]]]
        )
        return Exchange(
            kind, f"{story.text}\n{fill(question, story.cast)}", fill(answer, story.cast)
        )
    if kind in ("serving", "world"):
        topic = random.choice(topics(kind))
        prefix = random.choice(_PREFIXES).format(name=random.choice(NAMES).lower())
        return Exchange(kind, prefix + random.choice(topic["ask"]), random.choice(topic["say"]))
    task = next(task for task in TASKS if task.name == kind)
    prompt = task.ask(random)
    return Exchange(kind, prompt, random.choice(task.answers(prompt)))


def documents(seed: int) -> Iterator[list[WeightedText]]:
    """Yield documents without end, the same for the same seed. Three in four are chats."""
    random = Random(seed)
    while True:
        yield _chat(random) if random.random() < 0.75 else [(_plain_text(random) + END, 1.0)]


def chat_prompt(system: str | None, question: str) -> str:
    """Write a question as the chat template does, up to where the assistant begins."""
    preamble = f"{START}system\n{system}{STOP}\n" if system else ""
    return f"{preamble}{START}user\n{question}{STOP}\n{START}assistant\n"


def _chat(random: Random) -> list[WeightedText]:
    """One to three exchanges; three chats in ten begin with a system prompt."""
    system = None
    if random.random() < 0.3:
        rules = random.sample(_RULES, random.randrange(1, 8))
        system = _TEACHER if random.random() < 0.3 else " ".join(rules)
    parts: list[WeightedText] = []
    for number in range(random.choice((1, 1, 1, 2, 3))):
        kind = random.choices(KINDS, list(_WEIGHTS.values()))[0]
        chat = exchange(random, kind)
        text = chat_prompt(system if number == 0 else None, chat.prompt)
        parts += [(text, PROMPT_WEIGHT), (chat.answer + STOP, 1.0), ("\n", PROMPT_WEIGHT)]
    return [*parts[:-1], ("\n" + END, PROMPT_WEIGHT)]


def _plain_text(random: Random) -> str:
    """A story, statements, JSON lines, or names that repeat in a fixed order."""
    kind = random.random()
    if kind < 0.6:
        return write_story(random).text
    if kind < 0.75:
        return _statements(random, "serving" if kind < 0.68 else "world")
    if kind < 0.85:
        make = random.choice((person, server_request))
        return "\n".join(json.dumps(make(random)) for _ in range(random.randrange(2, 7)))
    words = [random.choice(NAMES).lower() for _ in range(random.randrange(2, 6))]
    separator = random.choice((" ", ", ", "\n"))
    return separator.join(words * random.randrange(2, 6))


def _statements(random: Random, name: str) -> str:
    """Two answers without their questions."""
    answers = [random.choice(topics(name))["say"][0] for _ in range(2)]
    return (" " if name == "serving" else "\n").join(answers)
