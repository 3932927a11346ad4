"""Makes a long recording without a model: the real engine, with a runner that answers at once.

Tokens and text are random; their lengths are realistic. There are shared prefixes, cache hits,
evictions, preemptions and hundreds of block tables, as on a busy server. The sequences do not all
fit into the pool, because seeking in a recording is slow only under memory pressure.
"""

from pathlib import Path
from random import Random

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.events.state import EngineState
from minivllm.lessons.scenarios.scripted import ScriptedRunner, ScriptedTokenizer
from minivllm.sampling_params import RequestOutputKind, SamplingParams

VOCAB_SIZE = 50_000
MAX_UNFINISHED = 96
"""Number of unfinished requests at a time; at most `MAX_NUM_SEQS` of them run."""
MAX_NUM_SEQS = 64


def record_traffic(path: Path, num_events: int, num_blocks: int, seed: int) -> EngineState:
    """Record at least `num_events` events, to the end of a step; return the engine's last state."""
    rng = Random(f"traffic/{seed}")
    config = EngineConfig(model="none", max_num_seqs=MAX_NUM_SEQS, max_num_batched_tokens=2048)
    tokens = Random(seed)
    runner = ScriptedRunner(num_blocks, 4096, lambda sequence: tokens.randrange(VOCAB_SIZE))
    tokenizer = ScriptedTokenizer(lambda token_id: f" w{token_id}", VOCAB_SIZE)
    engine = LLMEngine(config, runner, tokenizer, clock=VirtualClock())
    # A few system prompts, each shared by many users.
    system_prompts = [_random_tokens(rng, rng.randint(100, 400)) for _ in range(8)]
    num_arrived = num_unfinished = 0
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        while engine.core.bus.next_seq < num_events:
            while num_unfinished < MAX_UNFINISHED:
                prompt = rng.choice(system_prompts) + _random_tokens(rng, rng.randint(16, 400))
                # Nothing reads the outputs, so each output is built only when its request ends.
                params = SamplingParams(
                    max_tokens=rng.randint(64, 640), output_kind=RequestOutputKind.FINAL_ONLY
                )
                engine.add_request(str(num_arrived), {"prompt_token_ids": prompt}, params)
                num_arrived += 1
                num_unfinished += 1
            num_unfinished -= len(engine.step())
    return engine.inspect()


def _random_tokens(rng: Random, number: int) -> list[int]:
    return [rng.randrange(VOCAB_SIZE) for _ in range(number)]
