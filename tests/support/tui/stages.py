"""Runs for the dashboard: the real scheduler and real events, with scripted answers of words.

Every event list is one that the engine really emits, with preemptions, hits, evictions and waits.
`tests/tui/conftest.py` and `tests/more/tui/conftest.py` import the fixtures.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events.types import Event, LogHeader
from minivllm.sampling_params import SamplingParams
from support.engine.engine_fakes import FakeRunner, FakeTokenizer


@dataclass(frozen=True)
class Ask:
    """One request: name, prompt, answer, and the step before which it arrives."""

    request_id: str
    prompt: str
    answer: str
    arrives: int = 0
    max_tokens: int = 200
    samples: int = 1
    beams: int = 0  # The width of a beam search; 0 for none.
    length_penalty: float = 1.0

    @property
    def params(self) -> SamplingParams:
        return SamplingParams(
            temperature=0.0, max_tokens=self.max_tokens, n=self.beams or self.samples,
            use_beam_search=self.beams > 0, length_penalty=self.length_penalty,
        )  # fmt: skip


class Stage:
    """A real engine with scripted answers, run step by step; `events` has all its events."""

    def __init__(self, asks: list[Ask], *, num_blocks: int = 64, **options: object) -> None:
        options = {
            "block_size": 8, "max_num_seqs": 4, "max_num_batched_tokens": 64, "model": "smollm2",
            **options,
        }  # fmt: skip
        tokenizer = FakeTokenizer(words=True)
        answers = {ask.request_id: tokenizer.encode(ask.answer) for ask in asks}
        config = EngineConfig(**options)
        longest = config.max_model_len or 100_000
        runner = FakeRunner(num_blocks, config.block_size, longest, answers=answers)
        clock = VirtualClock(seconds_per_step=0.04)
        self.engine = LLMEngine(config, runner, tokenizer, clock=clock)
        self.header: LogHeader = self.engine.log_header()
        self.events: list[Event] = []
        self.engine.subscribe(self.events.append)
        self._asks = sorted(asks, key=lambda ask: ask.arrives)
        self._steps = 0

    def step(self) -> bool:
        """Add arriving requests and take one step; False when nothing is left."""
        while self._asks and self._asks[0].arrives <= self._steps:
            ask = self._asks.pop(0)
            self.engine.add_request(ask.request_id, ask.prompt, ask.params)
        self.engine.step()
        self._steps += 1
        return bool(self._asks) or self.engine.has_unfinished_requests()

    def run(self, steps: int = 10_000) -> "Stage":
        for _ in range(steps):
            if not self.step():
                break
        return self


_SYSTEM = (
    "You are a careful assistant in a hospital library . Answer in plain words , say where each"
    " fact comes from , and when you do not know , say so . Do not guess . Keep each answer under a"
    " hundred words . The reader may be tired . "
)
_QUESTIONS = [
    ("Why is the sky blue ?",
     "Air scatters short waves of light more than long ones, so blue comes from all sides"),
    ("What is a fever for ?",
     "A fever slows many germs down and helps the immune system to work faster"),
    ("How do bees find home ?",
     "Bees remember the sun's place, the hills and trees, and the smell of their own hive"),
    ("Who was Ada Lovelace ?",
     "She wrote, in 1843, what many call the first program, for Babbage's engine"),
    ("What is a black hole ?",
     "A place where so much mass is so close together that not even light can leave"),
    ("Why do leaves turn red ?",
     "When the green dye goes in autumn, red and yellow ones that were hidden show"),
    ("How does a vaccine work ?",
     "It shows the body a harmless part of a germ, so that it knows the germ next time"),
    ("What is salt made of ?",
     "Salt is sodium and chlorine, one atom of each, over and over, in a cube"),
]  # fmt: skip
_MORE = (
    " . To say it with more care , there is a long answer and a short one , and the long one is"
    " better when there is time . Sources : the encyclopedia on the second shelf , and the handbook"
    " beside it ."
)


def shared_prefix_asks(count: int = 8) -> list[Ask]:
    """Requests that share their instructions and arrive two by two."""
    return [
        Ask(f"r{index}", _SYSTEM + question, answer + _MORE, arrives=index // 2 * 6)
        for index, (question, answer) in enumerate((_QUESTIONS * 9)[:count])
    ]


@pytest.fixture
def shared_prefix() -> Stage:
    """Four slots, a shared prefix and enough blocks: hits and waits for a slot."""
    return Stage(shared_prefix_asks())


@pytest.fixture
def memory_pressure() -> Stage:
    """Different prompts in a pool that is far too small: preemptions and evictions."""
    asks = []
    for index, (question, answer) in enumerate(_QUESTIONS):
        prompt = f"{index} {question} " + " ".join(f"w{index}{k}" for k in range(40))
        asks.append(Ask(f"r{index}", prompt, answer + _MORE, index, max_tokens=80))
    return Stage(asks, num_blocks=24, max_num_seqs=4)


def _beside_a_plain_request(system: str, space: str, **options: int) -> Stage:
    (first, said), (second, also_said) = _QUESTIONS[:2]
    asks = [Ask("r0", system + first, space + said + _MORE, **options)]
    return Stage([*asks, Ask("r1", second, also_said + _MORE)], num_blocks=48)


@pytest.fixture
def samples() -> Stage:
    """Three samples beside a plain request: forks, a shared partial block, copies of it."""
    return _beside_a_plain_request(f"{_SYSTEM}Once more : ", "", max_tokens=64, samples=3)


@pytest.fixture
def beams() -> Stage:
    """A beam search of width 3 beside a plain request: forks and pruned beams at every step."""
    return _beside_a_plain_request(_SYSTEM, " ", max_tokens=40, beams=3)


@pytest.fixture
def drafts() -> Stage:
    """Answers that repeat words, drafted by prompt lookup: right, wrong and partly right drafts."""
    line = " the red fox sees the blue fox under the old bridge ,"
    said = " the red fox runs , the red fox sees a bee"
    asks = [
        Ask("r0", f"Repeat :{line}", f"{line} and{line} but the red fox sees green .", 0, 60),
        Ask("r1", f"Go on :{line}{line}", said, max_tokens=40, samples=2),
        Ask("r2", _QUESTIONS[0][0], _QUESTIONS[0][1] + _MORE, arrives=2, max_tokens=70),
        Ask("r3", _QUESTIONS[1][0], " so it is , so it was" * 6, arrives=9, max_tokens=30),
    ]
    options = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2}
    return Stage(
        asks,
        num_blocks=48,
        speculative_config={**options, "prompt_lookup_max": 3},
        enable_prefix_caching=True,
    )


@pytest.fixture
def stage() -> Callable[..., Stage]:
    """`Stage` itself, for tests with their own requests."""
    return Stage


@pytest.fixture
def ask() -> type[Ask]:
    return Ask
