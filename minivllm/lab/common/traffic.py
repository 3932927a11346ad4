"""A long recording without a model: the real engine and scheduler, and a runner that answers at
once.

It stands in for a busy server, so that opening and seeking are measured on what a recording really
holds: shared prefixes, cache hits, evictions, preemptions, hundreds of block tables. Only tokens
and their text are made up, and they have the lengths of real ones.

Easy to get wrong: traffic that never strains memory. Its recording would lack the kinds of events
that make state large and seeking slow. Here more sequences run than the pool holds to their ends.
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.events.state import EngineState
from minivllm.events.types import Event
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch
from minivllm.sampling_params import RequestOutputKind, SamplingParams

VOCAB_SIZE = 50_000
MAX_UNFINISHED = 96
"""Requests kept in flight; `MAX_NUM_SEQS` of them run, memory permitting."""
MAX_NUM_SEQS = 64


class RandomRunner:
    """In the model runner's place: computes nothing and samples seeded random tokens."""

    max_model_len = 4096

    def __init__(self, num_blocks: int, seed: int) -> None:
        self.num_blocks = num_blocks
        self._rng = Random(seed)

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        return StepResult(logits=None)

    def sample_tokens(self, sequences: list[Sequence], logits: None) -> list[SampledToken]:
        return [SampledToken(self._rng.randrange(VOCAB_SIZE)) for _ in sequences]


class WordTokenizer:
    """In the tokenizer's place: every token is a short word. Prompts come as token ids, so it
    encodes none.
    """

    vocab_size = VOCAB_SIZE
    eos_token_ids: frozenset[int] = frozenset()

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join(f" w{token_id}" for token_id in ids)

    def is_silent(self, token_id: int, skip_special_tokens: bool) -> bool:
        return False

    def is_byte_fallback(self, token_id: int) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class RecordedTraffic:
    """Where the engine stood when the recording ended: reading it must lead to the same state."""

    num_events: int
    final_state: EngineState


def record_traffic(path: Path, num_events: int, num_blocks: int, seed: int) -> RecordedTraffic:
    """Write a recording of `num_events` events or a few more: it ends with a finished step."""
    rng = Random(f"traffic/{seed}")
    config = EngineConfig(model="none", max_num_seqs=MAX_NUM_SEQS, max_num_batched_tokens=2048)
    engine = LLMEngine(
        config, RandomRunner(num_blocks, seed), WordTokenizer(), clock=VirtualClock()
    )
    counter = _EventCounter()
    engine.subscribe(counter)
    # A few system prompts, each shared by many users.
    system_prompts = [_random_tokens(rng, rng.randint(100, 400)) for _ in range(8)]
    num_arrived = num_unfinished = 0
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        while counter.num_events < num_events:
            while num_unfinished < MAX_UNFINISHED:
                prompt = rng.choice(system_prompts) + _random_tokens(rng, rng.randint(16, 400))
                # Nobody reads the outputs, so none is built before the end.
                params = SamplingParams(
                    max_tokens=rng.randint(64, 640), output_kind=RequestOutputKind.FINAL_ONLY
                )
                engine.add_request(str(num_arrived), {"prompt_token_ids": prompt}, params)
                num_arrived += 1
                num_unfinished += 1
            num_unfinished -= len(engine.step())
    return RecordedTraffic(counter.num_events, engine.inspect())


class _EventCounter:
    """A listener that only counts."""

    def __init__(self) -> None:
        self.num_events = 0

    def __call__(self, event: Event) -> None:
        self.num_events += 1


def _random_tokens(rng: Random, number: int) -> list[int]:
    return [rng.randrange(VOCAB_SIZE) for _ in range(number)]
